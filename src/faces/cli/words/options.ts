/** Options that commands share. */
import { type Command, Option } from "commander";

/** Which server, with which token. */
export const serverOptions = (command: Command): Command =>
  command
    .option(
      "--server <url>",
      "the server (HOLDFAST_URL; default the one on ./.holdfast, else http://127.0.0.1:4280)",
    )
    .option(
      "--token <token>",
      "the bearer token (HOLDFAST_TOKEN; --token-file keeps it out of the process list)",
    )
    .option("--token-file <file>", "a file that holds the bearer token (HOLDFAST_TOKEN_FILE)")
    .option(
      "--data <dir>",
      "directory of a server's data on this machine (HOLDFAST_DATA; default ./.holdfast)",
    )
    .option("--json", "print JSON");

/** The same, for commands that also work on the locks in a git repository. */
export const placeOptions = (command: Command): Command =>
  serverOptions(
    command.option(
      "--git [remote]",
      "the locks in this git repository, decided by a remote's name or local (default: where no server is set up)",
    ),
  );

/** One of a few words, which a shell can complete. The command refuses others, in words of its own. */
export function choiceOption(flags: string, about: string, choices: readonly string[]): Option {
  const option = new Option(flags, about);
  option.argChoices = [...choices];
  return option;
}
