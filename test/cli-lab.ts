// Where the command line is tested as scripts use it: a server, a `holdfast` on the PATH, a state directory of its own,
// and nothing of the machine's own settings or CI. Commands run from here share this process as their session; each
// script is a session of its own.
import { chmodSync, mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { call, mainFile, type Server, type ServerOptions, startServer, temporaryDir } from "./server.js";
import { type Ended, runToEnd } from "./system-program.js";

export interface Lab extends AsyncDisposable {
  readonly server: Server;
  /** Scripts run in it. */
  readonly dir: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** One command, of this process's session. */
  holdfast(args: readonly string[], env?: Record<string, string | undefined>): Promise<Ended>;
  /** A bash script: a session of its own. */
  script(text: string, env?: Record<string, string | undefined>): Promise<Ended>;
  /** A command that stands on the PATH of scripts, before the machine's own. */
  command(name: string, text: string): void;
  /** Names of the files kept in the state directory. */
  kept(): string[];
  /** The principal that holds it now, or null. */
  holderOf(name: string): Promise<string | null>;
}

/** Whatever a CI sets would make all scripts of a test one session. */
const ciVariables = [
  "GITHUB_RUN_ID",
  "CI_JOB_ID",
  "BUILDKITE_JOB_ID",
  "CIRCLE_WORKFLOW_JOB_ID",
  "BITBUCKET_STEP_UUID",
  "TRAVIS_JOB_ID",
  "SYSTEM_JOBID",
  "JOB_NAME",
  "BUILD_ID",
];

/** Nothing of the machine's own settings, with this as the user's home. */
export const bareEnvironment = (home: string): Record<string, string | undefined> => ({
  ...Object.fromEntries(ciVariables.map((name) => [name, undefined])),
  HOME: home,
  XDG_CONFIG_HOME: undefined,
  XDG_STATE_HOME: undefined,
});

export async function openLab(options: ServerOptions = {}): Promise<Lab> {
  const server = await startServer(options);
  const dir = temporaryDir("holdfast-lab-");
  const bin = join(dir, "bin");
  mkdirSync(bin);
  const command = (name: string, text: string): void => {
    writeFileSync(join(bin, name), text);
    chmodSync(join(bin, name), 0o755);
  };
  // What other programs' examples call `issue` is a command of its own here.
  command(
    "holdfast",
    `#!/bin/sh\nif [ "$1" = issue ]; then shift; exec issue "$@"; fi\nexec '${process.execPath}' '${mainFile}' "$@"\n`,
  );
  const env = {
    ...bareEnvironment(dir),
    PATH: `${bin}:${process.env["PATH"]}`,
    HOLDFAST_URL: server.url,
    HOLDFAST_TOKEN: "secret-a",
  };
  let scripts = 0;
  return {
    server,
    dir,
    env,
    command,
    holdfast: (args, more = {}) =>
      runToEnd(process.execPath, [mainFile, ...args], { env: { ...env, ...more }, cwd: dir }),
    script: (text, more = {}) => {
      scripts += 1;
      const file = join(dir, `script-${scripts}.sh`);
      writeFileSync(file, text);
      return runToEnd("bash", [file], { env: { ...env, ...more }, cwd: dir });
    },
    kept: () => filesBelow(join(dir, ".local", "state", "holdfast", "leases")),
    holderOf: async (name) => {
      const path = `/locks/${encodeURIComponent(name)}`;
      const { body } = await call<{ holder: { principal: string } | null }>(server, "GET", path, {
        token: "secret-a",
      });
      return body.holder?.principal ?? null;
    },
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
  };
}

export function filesBelow(dir: string): string[] {
  try {
    return readdirSync(dir, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => join(entry.parentPath, entry.name))
      .sort();
  } catch {
    return [];
  }
}

/** Asks again and again until it is so. */
export async function eventually(what: string, isSo: () => boolean | Promise<boolean>): Promise<void> {
  const deadline = Date.now() + 30_000;
  while (!(await isSo())) {
    if (Date.now() > deadline) throw new Error(`not within 30 s: ${what}`);
    await delay(50);
  }
}

/** What `--json` printed: all of standard output. */
export const jsonOf = <Data = Record<string, unknown>>({
  stdout,
}: Ended): {
  readonly ok: boolean;
  readonly data: Data;
  readonly error: {
    readonly code: string;
    readonly message: string;
    readonly details: Record<string, unknown>;
  };
} => JSON.parse(stdout);
