
_crema() {
  if (( CURRENT == 2 )); then
    _describe -t commands command _crema_commands
    return
  fi
  shift words
  (( CURRENT-- ))
  if (( $+functions[_crema_$words[1]] )); then _crema_$words[1]; fi
}

_crema "$@"
