/** The scripts that connect a shell to `lineside __complete`. They hold no command: that one knows them all. */

const bash = `# bash completion for lineside; made by: lineside completion bash
_lineside() {
  local line=\${COMP_LINE:0:COMP_POINT} rest word cur offer value prefix
  local -a words=()
  COMPREPLY=()
  # bash splits words at ":" and "=" too: put them together again.
  for ((word = 0; word <= COMP_CWORD; word++)); do
    rest=\${line#"\${line%%[![:space:]]*}"}
    if [[ $rest != "$line" || $word == 0 ]]; then words+=(""); fi
    line=$rest
    if ((word == COMP_CWORD)); then
      words[-1]+=$line
    else
      words[-1]+=\${COMP_WORDS[word]}
      line=\${line#"\${COMP_WORDS[word]}"}
    fi
  done
  cur=\${words[-1]}
  # The word without the shell's quotes.
  local quote=
  case $cur in
    [\\"\\']*) quote=\${cur:0:1} cur=\${cur:1} ;;
    *) cur=\${cur//\\\\/} ;;
  esac
  # Only what follows the last ":" or "=" is replaced.
  prefix=
  if [[ -z $quote && $cur == *[:=]* ]]; then prefix=\${cur%"\${cur##*[:=]}"}; fi
  while IFS= read -r offer; do
    value=\${offer%%$'\\t'*}
    if [[ $value == :files ]]; then
      compopt -o filenames
      while IFS= read -r value; do COMPREPLY+=("$value"); done < <(compgen -f -- "\${cur#"$prefix"}")
      continue
    fi
    value=\${value#"$prefix"}
    [[ -n $quote ]] || printf -v value %q "$value"
    COMPREPLY+=("$value")
  done < <("\${words[0]}" __complete "\${words[@]:1:\${#words[@]}-2}" "$cur" 2>/dev/null)
}
complete -F _lineside lineside
`;

const zsh = `#compdef lineside
# zsh completion for lineside; made by: lineside completion zsh
_lineside() {
  local offer
  local -a offers
  for offer in "\${(@f)$("\${words[1]}" __complete "\${(@Q)words[2,CURRENT-1]}" "\${(Q)PREFIX}" 2>/dev/null)}"; do
    case $offer in
      '') ;;
      :files) _files ;;
      *$'\\t'*) offers+=("\${\${offer%%$'\\t'*}//:/\\\\:}:\${offer#*$'\\t'}") ;;
      *) offers+=("\${offer//:/\\\\:}") ;;
    esac
  done
  (( $#offers )) && _describe 'lineside' offers
}
if [ "$funcstack[1]" = _lineside ]; then
  _lineside "$@"
else
  compdef _lineside lineside
fi
`;

const fish = `# fish completion for lineside; made by: lineside completion fish
function __lineside_offers
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    for offer in ($words[1] __complete $words[2..-1] "$current" 2>/dev/null)
        if test "$offer" = :files
            __fish_complete_path "$current"
        else
            echo $offer
        end
    end
end
complete -c lineside -f -a '(__lineside_offers)'
`;

export const completionScripts = { bash, zsh, fish } as const;
