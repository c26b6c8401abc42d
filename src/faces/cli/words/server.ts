/** The words of whoever operates a server: serve, backup, restore, migrate, token, verify. */
import type { Command } from "commander";
import { CliError, exitCodes } from "../failure.js";
import { choiceOption, serverOptions } from "./options.js";

export function declare(program: Command): void {
  program
    .command("serve")
    .description("run the server")
    .option("--host <address>", "address to listen on (HOLDFAST_HOST; default 127.0.0.1)")
    .option("--port <number>", "port to listen on (HOLDFAST_PORT; default 4280)")
    .option("--data <dir>", "directory of the data (HOLDFAST_DATA; default ./.holdfast)")
    .option(
      "--store <url>",
      "sqlite:FILE, postgres://…, etcd://HOST:2379,… or memory: (HOLDFAST_STORE; default a file in the data directory)",
    )
    .option("--tls-cert <file>", "certificate chain in PEM (HOLDFAST_TLS_CERT)")
    .option("--tls-key <file>", "private key in PEM (HOLDFAST_TLS_KEY)")
    .option("--trust-proxy", "believe X-Forwarded-For (HOLDFAST_TRUST_PROXY=1)")
    .addHelpText("after", "\nExample:\n  holdfast serve --data /var/lib/holdfast\n")
    .action(async (flags) => (await import("../serve-command.js")).serveCommand(flags));
  serverOptions(program.command("backup").argument("<file>", "where the copy goes; must not exist"))
    .description("copy the data while the server runs")
    .addHelpText("after", "\nExample:\n  holdfast backup holdfast-2026-11-16.db\n")
    .action(async (file, flags) => (await import("../data-commands.js")).backupCommand(file, flags));
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
      await (await import("../data-commands.js")).restoreCommand(backup, flags);
    });
  // Both set the same option; the last would win without a word.
  const waits = new Set<string>();
  for (const name of ["wait", "no-wait"]) restore.on(`option:${name}`, () => waits.add(name));
  program
    .command("migrate")
    .description("carry all data to another store, and seal the one it was in")
    .requiredOption("--from <url>", "where the data is: sqlite:FILE, postgres://… or etcd://…")
    .requiredOption("--to <url>", "where it goes, which must be empty: sqlite:FILE, postgres://… or etcd://…")
    .option("--json", "print JSON")
    .addHelpText("after", migrateHelp)
    .action(async (flags) => (await import("../migrate-command.js")).migrateCommand(flags));
  const token = program
    .command("token")
    .description("make, list and revoke bearer tokens")
    .addHelpText("after", "\nExample:\n  holdfast token create --name ci --scope 'deploy-*'\n");
  serverOptions(
    token.command("create").requiredOption("--name <name>", "the principal its leases are held by"),
  )
    .description("make a token; it is printed once")
    .option("--scope <pattern...>", "names it may touch, * matches any characters (default *)")
    .addOption(
      choiceOption("--role <role>", "what it may do", ["worker", "observer", "admin"]).default("worker"),
    )
    .option("--space <space>", "tenant (default: default)")
    .option("--expires <duration>", "as 90d or 12h (default: never)")
    .option("--reentrant", "same token and metadata count as the same holder")
    .addHelpText("after", "\nExample:\n  holdfast token create --name ci --scope 'deploy-*' --expires 90d\n")
    .action(async (flags) => (await import("../token-commands.js")).createToken(flags));
  serverOptions(token.command("list").option("--space <space>", "tenant"))
    .description("list tokens, without their secrets")
    .addHelpText("after", "\nExample:\n  holdfast token list --space team-b\n")
    .action(async (flags) => (await import("../token-commands.js")).listTokens(flags));
  serverOptions(
    token.command("revoke").argument("<id>", "id or name of the token").option("--space <space>", "tenant"),
  )
    .description("revoke a token, in force within a second")
    .addHelpText("after", "\nExample:\n  holdfast token revoke ci\n")
    .action(async (id, flags) => (await import("../token-commands.js")).revokeToken(id, flags));
  serverOptions(
    token.command("rotate").argument("<id>", "id or name of the token").option("--space <space>", "tenant"),
  )
    .description("replace a token's secret; its name and leases stay")
    .addHelpText("after", "\nExample:\n  holdfast token rotate ci > ci-token\n")
    .action(async (id, flags) => (await import("../token-commands.js")).rotateToken(id, flags));
  program
    .command("verify")
    .description("work on a running server's leases for a while and check that it kept every promise")
    .option("--url <url>", "the server (HOLDFAST_URL; default the one on --data, else http://127.0.0.1:4280)")
    .option("--server <url>", "the same as --url")
    .option("--token <token...>", "bearer tokens of workers of one space, each a principal (HOLDFAST_TOKEN)")
    .option("--token-file <file>", "a file that holds the bearer token (HOLDFAST_TOKEN_FILE)")
    .option("--data <dir>", "data directory (HOLDFAST_DATA; default ./.holdfast)")
    .option(
      "--duration <duration>",
      "how long, as 30s or 10m, from 5s to 24h; letting go takes some seconds more",
      "60s",
    )
    .option("--workloads <names>", "only these, separated by commas")
    .option("--report <file...>", "write FILE.html for people or FILE.json with the whole history")
    .option("--seed <number>", "make the same choices as an earlier run")
    .option("--keep-going", "go on until the time is up though a violation was found")
    .option("--json", "print JSON")
    .option("--yes", "also on a server that is not on this machine")
    .addHelpText("after", "\nExample:\n  holdfast verify --duration 30s --report verify.html\n")
    .action(async (flags) => (await import("../verify-command.js")).verifyCommand(flags));
}

const migrateHelp = `
Leases keep their holders, their tokens and the time that is left of them. The source is never used again: servers on it
answer 503 from then on and refuse to start. A migration that was stopped on the way is run again as it was.

Example:
  holdfast migrate --from sqlite:/var/lib/holdfast/holdfast.db --to postgres://holdfast:secret@db/holdfast
`;
