
_crema_files() {
  compopt -o filenames 2>/dev/null || true # fails outside of a completion
  mapfile -t COMPREPLY < <(compgen -f -- "$1")
}

_crema() {
  local command=${COMP_WORDS[1]-} current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}
  COMPREPLY=()
  if ((COMP_CWORD == 1)); then
    mapfile -t COMPREPLY < <(compgen -W "$_crema_commands" -- "$current")
    return
  fi
  # "=" is a word of its own: --flag = value.
  local flag=
  if [[ $current == '=' ]]; then
    flag=$before current=
  elif [[ $before == '=' ]]; then
    flag=${COMP_WORDS[COMP_CWORD - 2]}
  fi
  if [[ $flag == -* ]]; then
    local values=${_crema_values["$command $flag"]-}
    if [[ $values ]]; then
      local -a words
      mapfile -t words < <(compgen -W "$values" -- "$current")
      if [[ ${_crema_files_too["$command $flag"]-} ]]; then _crema_files "$current"; fi
      COMPREPLY=("${words[@]}" "${COMPREPLY[@]}")
    else
      _crema_files "$current"
    fi
  elif [[ $current == -* ]]; then
    local flags=${_crema_flags["$command ${COMP_WORDS[2]-}"]-${_crema_flags[$command]-}}
    mapfile -t COMPREPLY < <(compgen -W "$flags" -- "$current")
    if [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == *= ]]; then compopt -o nospace 2>/dev/null || true; fi
  elif ((COMP_CWORD == 2)) && [[ ${_crema_actions[$command]-} ]]; then
    mapfile -t COMPREPLY < <(compgen -W "${_crema_actions[$command]}" -- "$current")
  else
    _crema_files "$current"
  fi
}
complete -F _crema crema
