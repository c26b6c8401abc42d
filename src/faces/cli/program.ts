/**
 * The command line: which commands there are. Only the group that is called for is declared, and what it does is loaded
 * when it is called: a lock in a shell loop must not pay for a server.
 */
import type { Command, CommanderError, Option } from "commander";
import { surviveClosedPipes } from "./closed-pipes.js";
import { CliError, exitCodes } from "./failure.js";
import { closeOpened } from "./repository/opened.js";
import { version } from "./version.js";

interface Words {
  declare(program: Command): void;
}

/** Which file declares a command. Help lists them in this order. */
const groups: Readonly<Record<string, () => Promise<Words>>> = {
  run: () => import("./words/run.js"),
  hold: () => import("./words/run.js"),
  lock: () => import("./words/lock.js"),
  job: () => import("./words/job.js"),
  node: () => import("./words/node.js"),
  guard: () => import("./words/guard.js"),
  status: () => import("./words/look.js"),
  watch: () => import("./words/look.js"),
  doctor: () => import("./words/look.js"),
  config: () => import("./words/look.js"),
  completion: () => import("./words/look.js"),
  serve: () => import("./words/server.js"),
  backup: () => import("./words/server.js"),
  restore: () => import("./words/server.js"),
  migrate: () => import("./words/server.js"),
  token: () => import("./words/server.js"),
  verify: () => import("./words/server.js"),
};

/** Runs the command and returns the exit code. */
export async function run(args: readonly string[]): Promise<number> {
  const [word = ""] = args;
  surviveClosedPipes();
  try {
    await (await build(word)).parseAsync(withGitApart(args), { from: "user" });
    return Number(process.exitCode ?? exitCodes.done);
  } catch (error) {
    if (isShown(error)) return exitCodes.done;
    return (await import("./explain.js")).explain(error, isJson(args));
  } finally {
    await closeOpened();
  }
}

/** Help and the version were asked for, and printed. */
const isShown = (error: unknown): boolean =>
  error instanceof Error && "exitCode" in error && error.exitCode === 0;

/** What follows `--` belongs to another command. */
function ownWords(args: readonly string[]): readonly string[] {
  const end = args.indexOf("--");
  return end === -1 ? args : args.slice(0, end);
}

const isJson = (args: readonly string[]): boolean => ownWords(args).includes("--json");

/** `--git` takes a remote only behind an equals sign: the next word is the name to be locked. */
function withGitApart(args: readonly string[]): string[] {
  refuseLooseGit(ownWords(args));
  const own = ownWords(args).map((word) => (word === "--git" ? "--git=" : word));
  return [...own, ...args.slice(own.length)];
}

/** What a script with an empty variable, or somebody used to other programs, would get: another place, or another lock. */
function refuseLooseGit(own: readonly string[]): void {
  if (own.includes("--git="))
    throw new CliError(
      "--git= names no remote: give --git=NAME, --git=local, or --git alone",
      exitCodes.usage,
    );
  const next = own[own.indexOf("--git") + 1] ?? "";
  if (own.includes("--git") && ["local", "origin"].includes(next))
    throw new CliError(
      `--git ${next}: a remote is given as --git=${next}. To lock the name ${next}: --resource ${next} --git`,
      exitCodes.usage,
    );
}

/** Knows the command's own group, or, for help and for a word that nobody knows, all of them. */
export async function build(word: string): Promise<Command> {
  const { Command, Help } = await import("commander");
  const program = new Command("holdfast")
    .configureHelp({
      visibleOptions: (command) => ownFirst(new Help().visibleOptions(command)),
      optionTerm: ({ flags }) => flags.replace(" [remote]", "[=REMOTE]"),
    })
    .description("One live owner per job: leases with fencing tokens, over HTTP.")
    .version(version)
    .enablePositionalOptions()
    .addHelpText("after", examples);
  const load = Object.hasOwn(groups, word) ? groups[word] : undefined;
  const wanted = load === undefined ? Object.values(groups) : [load];
  for (const words of new Set(await Promise.all(wanted.map((one) => one())))) words.declare(program);
  tellFailuresOnce(program, program);
  return program;
}

/** What nearly every command takes. */
const shared = ["--git", "--server", "--token", "--token-file", "--data", "--json", "--help"];

/** In help, what a command takes by itself comes before what all of them take. */
function ownFirst(options: readonly Option[]): Option[] {
  const isShared = ({ long }: Option): boolean => shared.includes(long ?? "");
  return [...options.filter((one) => !isShared(one)), ...options.filter(isShared)];
}

const examples = `
Examples:
  holdfast serve                                      a server on this machine
  holdfast run deploy-main --wait 10m -- ./deploy.sh  one at a time, everywhere
  holdfast status                                     who holds what
  holdfast doctor                                     what is wrong, and what to do
`;

/** Failures are told in one place and one form, not by leaving the process. */
function tellFailuresOnce(command: Command, program: Command): void {
  command.configureOutput({ outputError: () => {} });
  command.exitOverride((error) => {
    throw error.exitCode === 0 ? error : wrongUse(error, command, program);
  });
  for (const inner of command.commands) tellFailuresOnce(inner, program);
}

function wrongUse({ code, message }: CommanderError, command: Command, program: Command): CliError {
  const path = pathOf(command);
  const words = message.replace(/^error: /, "").replaceAll("\n", " ");
  if (code === "commander.help" || (words === "unknown option '--json'" && command.commands.length > 0)) {
    const inner = command.commands.map((one) => one.name()).join(", ");
    return new CliError(`${path} needs a command after it: ${inner}. See: ${path} --help`, exitCodes.usage);
  }
  if (words.startsWith("unknown option '--git="))
    return new CliError(
      `unknown option '--git': ${path} needs a server; a repository keeps locks only. See: ${path} --help`,
      exitCodes.usage,
    );
  const typed = /^unknown command '(.*?)'/.exec(words)?.[1];
  // As `holdfast acquire` for `holdfast lock acquire`.
  const deeper = command === program ? program.commands.find((one) => hasCommand(one, typed)) : undefined;
  const meant = deeper === undefined ? "" : ` (Did you mean ${path} ${deeper.name()} ${typed}?)`;
  return new CliError(`${words.replace(/\.$/, "")}${meant}. See: ${path} --help`, exitCodes.usage);
}

const hasCommand = (command: Command, name: string | undefined): boolean =>
  command.commands.some((inner) => inner.name() === name);

/** As it is typed: `holdfast token create`. */
const pathOf = (command: Command): string =>
  command.parent === null ? command.name() : `${pathOf(command.parent)} ${command.name()}`;
