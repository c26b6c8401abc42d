// The bench's command line.

import { tmpdir } from "node:os";
import { parseArgs } from "node:util";
import { PROGRAM } from "./server.js";

export const USAGE = `npm run bench -- [options]
  --quick          a few seconds per scenario, 100,000 leases instead of 1,000,000
  --only A,B       only these scenarios: control, acquire, renew, pair, owner, expiry, hot, waiters, bulk, session, next, scale, cli-start, git-local, postgres, etcd
  --rounds N       measured rounds per scenario (default 6; quick 4; even, so that each goes first as often)
  --seconds S      length of one round (default 4; quick 1)
  --waiters N      waiters on one name (default 10,000)
  --json FILE      all figures as JSON
  --markdown FILE  the report as Markdown
  --tmp DIR        where the data goes (default ${tmpdir()}); put it on the disk you want measured
  --program FILE   the server to measure (default: the build beside this one)
`;

export interface Options {
  readonly quick: boolean;
  readonly only: readonly string[];
  readonly rounds: number;
  readonly seconds: number;
  readonly waiters: number;
  readonly json: string | undefined;
  readonly markdown: string | undefined;
  readonly tmp: string;
  readonly program: string;
  readonly help: boolean;
}

/** Throws, with a sentence for a person, on what it does not understand. */
export function readOptions(args: readonly string[]): Options {
  const { values } = parseArgs({
    args: [...args],
    options: {
      quick: { type: "boolean", default: false },
      only: { type: "string", default: "" },
      rounds: { type: "string" },
      seconds: { type: "string" },
      waiters: { type: "string", default: "10000" },
      json: { type: "string" },
      markdown: { type: "string" },
      tmp: { type: "string", default: tmpdir() },
      program: { type: "string", default: PROGRAM },
      help: { type: "boolean", default: false },
    },
  });
  return {
    quick: values.quick,
    only: values.only.split(",").filter((name) => name !== ""),
    rounds: positive("rounds", values.rounds ?? (values.quick ? "4" : "6"), 100),
    seconds: positive("seconds", values.seconds ?? (values.quick ? "1" : "4"), 600),
    waiters: positive("waiters", values.waiters, 19_000),
    json: values.json,
    markdown: values.markdown,
    tmp: values.tmp,
    program: values.program,
    help: values.help,
  };
}

function positive(name: string, text: string, max: number): number {
  const value = Number(text);
  if (!(value > 0 && value <= max)) throw new Error(`--${name} takes a number up to ${max}, not ${text}`);
  return value;
}
