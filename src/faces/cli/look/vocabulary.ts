/** Every command with the words that may follow it, read off the declarations: what a shell can complete. */
import type { Command, Option } from "commander";

export interface Word {
  readonly word: string;
  readonly about: string;
}

export interface ValueOption {
  /** `--port`, and `-p` if there is one. */
  readonly words: readonly string[];
  readonly about: string;
  /** What its value can be; empty: anything. */
  readonly choices: readonly string[];
}

export interface Place {
  /** As it is typed: `holdfast token create`. */
  readonly path: string;
  /** Commands, and what its arguments can be. */
  readonly words: readonly Word[];
  readonly switches: readonly Word[];
  readonly options: readonly ValueOption[];
}

export function placesOf(command: Command, above = ""): Place[] {
  const help = command.createHelp();
  const path = above === "" ? command.name() : `${above} ${command.name()}`;
  const inner = help.visibleCommands(command).filter((one) => one.name() !== "help");
  const options = help.visibleOptions(command);
  const place: Place = {
    path,
    words: [
      ...inner.map((one) => ({ word: one.name(), about: one.description() })),
      ...command.registeredArguments.flatMap(({ argChoices = [], description }) =>
        argChoices.map((word) => ({ word, about: description })),
      ),
    ],
    switches: options
      .filter((option) => !takesValue(option))
      .flatMap((option) => wordsOf(option).map((word) => ({ word, about: option.description }))),
    options: options.filter(takesValue).map((option) => ({
      words: wordsOf(option),
      about: option.description,
      choices: option.argChoices ?? [],
    })),
  };
  return [place, ...inner.flatMap((one) => placesOf(one, path))];
}

/** One that need not have a value has it behind an equals sign. */
const takesValue = ({ required }: Option): boolean => required;

const wordsOf = ({ long, short }: Option): string[] =>
  [long, short].filter((word): word is string => typeof word === "string");
