/** `holdfast serve`: starts, says in one block how to use it, and stops cleanly when told to. */
import { type Config, ConfigError, readConfig, type ServeFlags, strangeVariables } from "../../config.js";
import type { Running } from "../../serve.js";
import { StoreUrlError } from "../../store/store.js";
import { makeLogger } from "./log.js";
import { version } from "./version.js";

export async function serveCommand(flags: ServeFlags): Promise<void> {
  const config = readConfig(flags, process.env);
  const logger = makeLogger(config.logLevel);
  for (const warning of strangeVariables(process.env)) logger.warn(warning);
  // Not before: a wrong setting is told at once.
  const { serve } = await import("../../serve.js");
  const running = await serve(config, version, logger).catch((error: unknown) => {
    throw error instanceof StoreUrlError
      ? new ConfigError(`${flags.store ? "--store" : "HOLDFAST_STORE"}: ${error.why}`)
      : error;
  });
  process.stdout.write(banner(running, config));
  logger.info({ url: running.url, engine: running.store.facts.engine, version }, "serving");
  if (running.quietMs > 0)
    logger.warn(
      { wait_ms: running.quietMs },
      "restored from a backup: nothing is granted until the wait is over",
    );
  const signal = await new Promise<string>((resolve) => {
    for (const name of ["SIGTERM", "SIGINT"] as const) process.once(name, () => resolve(name));
  });
  logger.info({ signal }, "stopping");
  // Past this the operator's patience, and that of process managers, is over.
  setTimeout(() => process.exit(1), 9_500).unref();
  await running.stop();
  logger.info("stopped");
}

/** What is pasted must work: the token itself where it is new, else where it is to be found. */
function tokenText({ newToken, tokenFile }: Running, { adminToken, tokens }: Config): string {
  if (newToken !== null) return newToken;
  if (tokenFile !== null) return `$(cat '${tokenFile}')`;
  if (adminToken !== null) return "$HOLDFAST_ADMIN_TOKEN";
  return `<secret of ${(tokens.find(({ role }) => role !== "observer") ?? tokens[0])?.name}>`;
}

function banner(running: Running, config: Config): string {
  const { url, store, newToken, tokenFile, quietMs } = running;
  const lines = [
    "",
    `  Holdfast ${version}`,
    `  URL    ${url}   (API: ${url}/docs)`,
    `  Data   ${store.facts.location}`,
  ];
  if (config.host === "0.0.0.0" || config.host === "::")
    lines.push(`  Open   on every address of this machine (${config.host})`);
  if (quietMs > 0)
    lines.push(`  Wait   restored from a backup: nothing is granted for ${Math.ceil(quietMs / 1000)} s yet`);
  if (newToken !== null) lines.push(`  Token  ${newToken}`, `         shown this once, kept in ${tokenFile}`);
  else if (tokenFile !== null) lines.push(`  Token  in ${tokenFile}`);
  lines.push(
    "",
    "  Try:",
    `  curl -X POST ${url}/locks/try-me/acquire -H "Authorization: Bearer ${tokenText(running, config)}" \\`,
    `    -H "Content-Type: application/json" -d '{"ttl_seconds":60,"metadata":"hello"}'`,
    "",
    "",
  );
  return lines.join("\n");
}
