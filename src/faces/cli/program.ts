/** The command line: which commands there are. Each is loaded when it is called. */
import { readFileSync } from "node:fs";
import { Command, CommanderError } from "commander";
import { ConfigError } from "../../config.js";
import { StoreError } from "../../store/store.js";
import { CliError, exitCodes } from "./failure.js";

export const version = (
  JSON.parse(readFileSync(new URL("../../../../package.json", import.meta.url), "utf8")) as {
    version: string;
  }
).version;

/** Runs the command and returns the exit code. */
export async function run(args: readonly string[]): Promise<number> {
  const program = build();
  try {
    await program.parseAsync([...args], { from: "user" });
    return Number(process.exitCode ?? 0);
  } catch (error) {
    return explain(error);
  }
}

function build(): Command {
  const program = new Command("holdfast")
    .description("One live owner per job: leases with fencing tokens, over HTTP.")
    .version(version)
    .showSuggestionAfterError()
    .exitOverride();
  program
    .command("serve")
    .description("run the server")
    .option("--host <address>", "address to listen on (HOLDFAST_HOST; default 127.0.0.1)")
    .option("--port <number>", "port to listen on (HOLDFAST_PORT; default 4280)")
    .option("--data <dir>", "directory of the data (HOLDFAST_DATA; default ./.holdfast)")
    .option("--store <url>", "sqlite:FILE or memory: (HOLDFAST_STORE; default a file in the data directory)")
    .option("--tls-cert <file>", "certificate chain in PEM (HOLDFAST_TLS_CERT)")
    .option("--tls-key <file>", "private key in PEM (HOLDFAST_TLS_KEY)")
    .option("--trust-proxy", "believe X-Forwarded-For (HOLDFAST_TRUST_PROXY=1)")
    .addHelpText("after", "\nExample:\n  holdfast serve --data /var/lib/holdfast\n")
    .action(async (flags) => (await import("./serve-command.js")).serveCommand(flags));
  const reach = (command: Command): Command =>
    command
      .option(
        "--server <url>",
        "talk to this server (HOLDFAST_URL; default the one on the data, else http://127.0.0.1:4280)",
      )
      .option("--data <dir>", "directory of the data, or of its server (HOLDFAST_DATA; default ./.holdfast)")
      .option("--json", "print JSON");
  reach(program.command("backup").argument("<file>", "where the copy goes; must not exist"))
    .description("copy the data while the server runs")
    .addHelpText("after", "\nExample:\n  holdfast backup holdfast-2026-11-16.db\n")
    .action(async (file, flags) => (await import("./data-commands.js")).backupCommand(file, flags));
  const restore = program
    .command("restore")
    .argument("<backup>", "a file made by holdfast backup")
    .description("make a backup the data of a new server")
    .option("--data <dir>", "data directory (HOLDFAST_DATA; default ./.holdfast)")
    .option("--store <url>", "sqlite:FILE instead of a file in the data directory")
    .option(
      "--wait <duration>",
      "grant nothing for this long, as 90s, 30m, 12h or 7d (default: the longest TTL ever granted in it)",
    )
    .option("--no-wait", "grant at once: only when every worker of before is surely gone")
    .option("--json", "print JSON")
    .addHelpText("after", "\nExample:\n  holdfast restore holdfast-2026-11-16.db --data /var/lib/holdfast\n")
    .action(async (backup, flags) => {
      if (waits.size > 1)
        throw new CliError("--wait and --no-wait say opposite things: give one of them", exitCodes.usage);
      await (await import("./data-commands.js")).restoreCommand(backup, flags);
    });
  // Both set the same option; the last would win without a word.
  const waits = new Set<string>();
  for (const name of ["wait", "no-wait"]) restore.on(`option:${name}`, () => waits.add(name));
  const token = program.command("token").description("make, list and revoke bearer tokens");
  reach(token.command("create").requiredOption("--name <name>", "the principal its leases are held by"))
    .description("make a token; it is printed once")
    .option("--scope <pattern...>", "names it may touch, * matches any characters (default *)")
    .option("--role <role>", "worker, observer or admin", "worker")
    .option("--space <space>", "tenant (default: default)")
    .option("--expires <duration>", "as 90d or 12h (default: never)")
    .option("--reentrant", "same token and metadata count as the same holder")
    .addHelpText("after", "\nExample:\n  holdfast token create --name ci --scope 'deploy-*' --expires 90d\n")
    .action(async (flags) => (await import("./token-commands.js")).createToken(flags));
  reach(token.command("list").option("--space <space>", "tenant"))
    .description("list tokens, without their secrets")
    .action(async (flags) => (await import("./token-commands.js")).listTokens(flags));
  reach(
    token.command("revoke").argument("<id>", "id or name of the token").option("--space <space>", "tenant"),
  )
    .description("revoke a token, in force within a second")
    .action(async (id, flags) => (await import("./token-commands.js")).revokeToken(id, flags));
  reach(
    token.command("rotate").argument("<id>", "id or name of the token").option("--space <space>", "tenant"),
  )
    .description("replace a token's secret; its name and leases stay")
    .action(async (id, flags) => (await import("./token-commands.js")).rotateToken(id, flags));
  program
    .command("verify")
    .description("work on a running server's leases for a while and check that it kept every promise")
    .option("--url <url>", "the server (HOLDFAST_URL; default the one on --data, else http://127.0.0.1:4280)")
    .option("--token <token...>", "bearer tokens of workers, each a principal (HOLDFAST_TOKEN)")
    .option("--data <dir>", "data directory (HOLDFAST_DATA; default ./.holdfast)")
    .option("--duration <duration>", "how long, as 30s or 10m", "60s")
    .option("--workloads <names>", "only these, separated by commas")
    .option("--report <file...>", "write FILE.html for people or FILE.json with the whole history")
    .option("--seed <number>", "make the same choices as an earlier run")
    .option("--json", "print JSON")
    .option("--yes", "also on a server that is not on this machine")
    .addHelpText("after", "\nExample:\n  holdfast verify --duration 30s --report verify.html\n")
    .action(async (flags) => (await import("./verify-command.js")).verifyCommand(flags));
  for (const command of program.commands) command.exitOverride();
  for (const command of token.commands) command.exitOverride();
  return program;
}

/** A line for people, never a stack trace, and the exit code of its kind. */
function explain(error: unknown): number {
  if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : exitCodes.usage;
  process.stderr.write(`holdfast: ${messageOf(error)}\n`);
  if (error instanceof CliError) return error.exitCode;
  if (error instanceof ConfigError) return exitCodes.usage;
  if (error instanceof StoreError) return exitCodes.storage;
  return isSystemError(error) ? exitCodes.storage : exitCodes.other;
}

/** The operating system refused: a port, a file, a directory. */
const isSystemError = (error: unknown): error is NodeJS.ErrnoException =>
  error instanceof Error && "code" in error && "syscall" in error;

/** What the operating system means, for the path that it was about. */
const meanings: Readonly<Record<string, string>> = {
  EACCES: "permission denied: run this as the user that owns it, or change its owner",
  EPERM: "permission denied: run this as the user that owns it, or change its owner",
  EROFS: "the file system can only be read: choose another place",
  ENOENT: "there is no such file or directory",
  ENOSPC: "the disk is full: free some room",
  EISDIR: "this is a directory: name a file",
};

function messageOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  if (!isSystemError(error)) return error.message;
  if (error.syscall === "mkdir" && ["EEXIST", "ENOTDIR", "ENOENT"].includes(error.code ?? ""))
    return `${error.path} is no directory, or lies in what is none: choose another with --data`;
  if (error.syscall === "getaddrinfo")
    return `${(error as { hostname?: string }).hostname} is no address of this machine: choose another with --host`;
  if (error.syscall !== "listen") {
    const meaning = meanings[error.code ?? ""];
    return meaning === undefined || error.path === undefined ? error.message : `${error.path}: ${meaning}`;
  }
  return listenMessage(error);
}

function listenMessage(error: NodeJS.ErrnoException): string {
  const {
    code,
    address = "this address",
    port,
  } = error as NodeJS.ErrnoException & {
    address?: string;
    port?: number;
  };
  if (code === "EADDRINUSE")
    return `port ${port} on ${address} is in use by another program: stop it, or choose another with --port`;
  if (code === "EACCES")
    return `port ${port} on ${address} needs more rights: choose one above 1023 with --port`;
  if (code === "EADDRNOTAVAIL") return `this machine has no address ${address}: choose another with --host`;
  return error.message;
}
