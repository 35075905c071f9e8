# fish completion for crema; made by scripts/manuals.sh.
