# bash completion for crema; made by scripts/manuals.sh.
declare -gA _crema_flags=() _crema_actions=() _crema_values=() _crema_files_too=()
_crema_commands=
