/** `holdfast serve`: starts, says in one block how to use it, and stops cleanly when told to. */
import { readConfig, type ServeFlags } from "../../config.js";
import type { Running } from "../../serve.js";
import { makeLogger } from "./log.js";
import { version } from "./program.js";

export async function serveCommand(flags: ServeFlags): Promise<void> {
  const config = readConfig(flags, process.env);
  const logger = makeLogger(config.logLevel);
  // Not before: a wrong setting is told at once.
  const { serve } = await import("../../serve.js");
  const running = await serve(config, version, logger);
  process.stdout.write(banner(running));
  logger.info({ url: running.url, engine: running.store.facts.engine, version }, "serving");
  const signal = await new Promise<string>((resolve) => {
    for (const name of ["SIGTERM", "SIGINT"] as const) process.once(name, () => resolve(name));
  });
  logger.info({ signal }, "stopping");
  // Past this the operator's patience, and that of process managers, is over.
  setTimeout(() => process.exit(1), 9_500).unref();
  await running.stop();
  logger.info("stopped");
}

function banner({ url, store, newToken, tokenFile }: Running): string {
  // What is pasted must work: the token itself where it is new, else where it is kept.
  const token = newToken ?? (tokenFile === null ? "$HOLDFAST_TOKEN" : `$(cat '${tokenFile}')`);
  const lines = [
    "",
    `  Holdfast ${version}`,
    `  URL    ${url}   (API: ${url}/docs)`,
    `  Data   ${store.facts.location}`,
  ];
  if (newToken !== null) lines.push(`  Token  ${newToken}`, `         shown this once, kept in ${tokenFile}`);
  else if (tokenFile !== null) lines.push(`  Token  in ${tokenFile}`);
  lines.push(
    "",
    "  Try:",
    `  curl -X POST ${url}/locks/deploy-main/acquire -H "Authorization: Bearer ${token}" \\`,
    `    -H "Content-Type: application/json" -d '{"ttl_seconds":60,"metadata":"host=runner-7"}'`,
    "",
    "",
  );
  return lines.join("\n");
}
