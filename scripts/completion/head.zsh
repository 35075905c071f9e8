#compdef crema
# zsh completion for crema; made by scripts/manuals.sh.
typeset -ga _crema_commands=()
