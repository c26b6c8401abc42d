/**
 * `holdfast completion`: a script for a shell, made from the declared commands. All three work alike: they walk over the
 * words typed so far to find the command, then offer what it takes; where a free value stands they offer files.
 */
import { exitCodes } from "../failure.js";
import { printJson } from "../output.js";
import { build } from "../program.js";
import { type Place, placesOf, type Word } from "./vocabulary.js";

export async function completionCommand(shell: string, flags: { readonly json?: boolean }): Promise<number> {
  const places = placesOf(await build(""));
  const write = writers[shell] ?? bash;
  const script = write(places);
  if (flags.json === true) printJson({ shell, script });
  else process.stdout.write(script);
  return exitCodes.done;
}

const writers: Readonly<Record<string, (places: readonly Place[]) => string>> = {
  bash: (places) => bash(places),
  zsh: (places) => zsh(places),
  fish: (places) => fish(places),
};

/** In single quotes, as bash and zsh read it. */
const quoted = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`;

/** A pattern of `case` that matches any of these. */
const anyOf = (texts: readonly string[]): string => texts.map(quoted).join("|");

/** Commands below the program itself: words that lead deeper. */
const deeper = (places: readonly Place[]): string[] => places.slice(1).map(({ path }) => path);

const offers = ({ words, switches, options }: Place): Word[] => [
  ...words,
  ...switches,
  ...options.flatMap((option) => option.words.map((word) => ({ word, about: option.about }))),
];

/** `holdfast serve --port`: where a value of the user's own follows. */
const freeValues = (places: readonly Place[]): string[] =>
  places.flatMap(({ path, options }) =>
    options
      .filter(({ choices }) => choices.length === 0)
      .flatMap(({ words }) => words.map((word) => `${path} ${word}`)),
  );

const chosenValues = (places: readonly Place[]): { at: string[]; choices: readonly string[] }[] =>
  places.flatMap(({ path, options }) =>
    options
      .filter(({ choices }) => choices.length > 0)
      .map(({ words, choices }) => ({ at: words.map((word) => `${path} ${word}`), choices })),
  );

function bash(places: readonly Place[]): string {
  const chosen = chosenValues(places).map(
    ({ at, choices }) =>
      `    ${anyOf(at)}) COMPREPLY=($(compgen -W ${quoted(choices.join(" "))} -- "$cur")); return ;;\n`,
  );
  const known = places.map(
    (place) =>
      `    ${quoted(place.path)}) offers=${quoted(
        offers(place)
          .map(({ word }) => word)
          .join(" "),
      )} ;;\n`,
  );
  return `# Completion of holdfast for bash, made by: holdfast completion bash
_holdfast() {
  local cur="\${COMP_WORDS[COMP_CWORD]}" prev="\${COMP_WORDS[COMP_CWORD-1]}" at=holdfast offers='' i
  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD; i++)); do
    # What follows belongs to another command.
    [[ "\${COMP_WORDS[i]}" == -- ]] && return
    case "$at \${COMP_WORDS[i]}" in
    ${anyOf(deeper(places))}) at="$at \${COMP_WORDS[i]}" ;;
    esac
  done
  case "$at $prev" in
${chosen.join("")}    ${anyOf(freeValues(places))}) return ;;
  esac
  case "$at" in
${known.join("")}  esac
  COMPREPLY=($(compgen -W "$offers" -- "$cur"))
}
complete -o default -F _holdfast holdfast
`;
}

function zsh(places: readonly Place[]): string {
  const chosen = chosenValues(places).map(
    ({ at, choices }) => `    (${anyOf(at)}) compadd -- ${choices.map(quoted).join(" ")}; return ;;\n`,
  );
  const known = places.map((place) => {
    const described = offers(place).map(({ word, about }) => quoted(`${word}:${about}`));
    return `    (${quoted(place.path)}) offers=(${described.join(" ")}) ;;\n`;
  });
  return `#compdef holdfast
# Completion of holdfast for zsh, made by: holdfast completion zsh
_holdfast() {
  local at=holdfast i
  local -a offers
  for ((i = 2; i < CURRENT; i++)); do
    # What follows belongs to another command.
    [[ "$words[i]" == -- ]] && { _files; return }
    case "$at $words[i]" in
    (${anyOf(deeper(places))}) at="$at $words[i]" ;;
    esac
  done
  case "$at $words[CURRENT-1]" in
${chosen.join("")}    (${anyOf(freeValues(places))}) _files; return ;;
  esac
  case "$at" in
${known.join("")}  esac
  _describe holdfast offers || _files
}
if [ "$funcstack[1]" = _holdfast ]; then
  _holdfast "$@"
else
  compdef _holdfast holdfast
fi
`;
}

/** Within single quotes fish reads only these two as other than themselves. */
const fishQuoted = (text: string): string => `'${text.replace(/[\\']/g, "\\$&")}'`;

function fish(places: readonly Place[]): string {
  const lines = places.flatMap((place) => {
    const at = `complete -c holdfast -n ${fishQuoted(`__holdfast_at ${place.path}`)}`;
    const about = (text: string): string => `-d ${fishQuoted(text)}`;
    return [
      ...place.words.map((one) => `${at} -f -a ${one.word} ${about(one.about)}`),
      ...place.switches.map((one) => `${at} ${flagOf(one.word)} ${about(one.about)}`),
      ...place.options.map(({ words, choices, about: text }) => {
        const values = choices.length === 0 ? "-r" : `-x -a ${fishQuoted(choices.join(" "))}`;
        return `${at} ${words.map(flagOf).join(" ")} ${values} ${about(text)}`;
      }),
    ];
  });
  return `# Completion of holdfast for fish, made by: holdfast completion fish
function __holdfast_at
    set -l at holdfast
    for word in (commandline -opc)[2..-1]
        # What follows belongs to another command.
        test "$word" = --; and break
        switch "$at $word"
            case ${deeper(places).map(fishQuoted).join(" ")}
                set at "$at $word"
        end
    end
    test "$at" = "$argv"
end
${lines.join("\n")}
`;
}

const flagOf = (word: string): string =>
  word.startsWith("--") ? `-l ${word.slice(2)}` : `-s ${word.slice(1)}`;
