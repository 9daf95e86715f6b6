import { command, type Command } from '../command.ts';

const completion = command({
  path: ['completion'],
  summary: 'Print the completion script of a shell',
  description: 'Commands, options and the names of what lives in the cluster are completed.',
  arguments: { shell: { summary: 'Shell', choices: ['bash', 'zsh', 'fish'] } },
  examples: [
    { line: 'source <(svc3 completion bash)', summary: 'For this bash' },
    { line: 'svc3 completion zsh > "${fpath[1]}/_svc3"', summary: 'For every zsh' },
    { line: 'svc3 completion fish > ~/.config/fish/completions/svc3.fish', summary: 'For every fish' },
  ],
  run({ out }, { arguments: { shell } }) {
    out.line(scripts[shell as keyof typeof scripts].trim());
    return Promise.resolve();
  },
});

/** Each asks `svc3 __complete WORD...` for the candidates of the last word, one a line, with a tab before a description. */
const scripts = {
  bash: String.raw`
# bash completion of svc3
_svc3() {
  local line="${'$'}{COMP_LINE:0:COMP_POINT}" candidate current split
  local -a words
  read -ra words <<< "$line"
  [[ $line == *[[:space:]] ]] && words+=("")
  current="${'$'}{words[${'$'}{#words[@]}-1]}"
  # bash takes what stands before a colon or an equals sign for a word of its own
  split="${'$'}{current%"${'$'}{current##*[:=]}"}"
  COMPREPLY=()
  while IFS= read -r candidate; do
    candidate="${'$'}{candidate%%$'\t'*}"
    [[ -n $candidate && $candidate == "$current"* ]] && COMPREPLY+=("${'$'}{candidate#"$split"}")
  done < <(svc3 __complete "${'$'}{words[@]:1}" 2>/dev/null)
}
complete -o default -F _svc3 svc3
`,
  zsh: String.raw`
#compdef svc3
_svc3() {
  local -a lines names
  local line
  lines=("${'$'}{(@f)$(svc3 __complete "${'$'}{(@)words[2,$CURRENT]}" 2>/dev/null)}")
  for line in $lines; do
    [[ -n $line ]] && names+=("${'$'}{${'$'}{line%%$'\t'*}//:/\\:}:${'$'}{line#*$'\t'}")
  done
  if (( $#names )); then _describe -t svc3 svc3 names; else _files; fi
}
if [[ $funcstack[1] == _svc3 ]]; then _svc3 "$@"; else compdef _svc3 svc3; fi
`,
  fish: String.raw`
# fish completion of svc3
function __svc3_complete
  set -l words (commandline -opc) (commandline -ct)
  svc3 __complete $words[2..-1] 2>/dev/null
end
complete -c svc3 -f -a '(__svc3_complete)'
`,
};

export const commands: readonly Command[] = [completion];
