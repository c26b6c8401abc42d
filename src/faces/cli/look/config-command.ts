/** `holdfast config show`: each setting and where it came from. Nothing secret is shown. */
import { existsSync } from "node:fs";
import { choose } from "../connect.js";
import { CliError, exitCodes } from "../failure.js";
import type { Standing } from "../guard/standing.js";
import { printJson, printLines, warn } from "../output.js";
import { placeText } from "../place.js";
import { type ServerFlags, userFile } from "../settings.js";
import { tableLines } from "./table.js";

export interface ConfigFlags extends ServerFlags {
  readonly json?: boolean;
}

export async function showConfig(flags: ConfigFlags): Promise<number> {
  const { settings, authority } = await choose(flags);
  const { url, token, unused, warnings, project: found } = settings;
  const { file: project, values: policy } = found;
  const user = userFile(process.env);
  const guard = await guardHere();
  const shown = token === null ? null : { value: masked(token.value), from: token.from };
  if (flags.json === true) {
    printJson({
      url: authority === null ? url : null,
      token: shown,
      authority:
        authority === null
          ? null
          : { value: authority.place.authority, from: authority.from, why: authority.why },
      unused,
      files: { user: { path: user, exists: existsSync(user) }, project },
      policy: {
        ...Object.fromEntries(Object.entries(policy).map(([key, value]) => [key, { value, from: project }])),
        ...(guard === null ? {} : { lock_policy: { value: guard.policy.word, from: guard.policy.from } }),
      },
      hooks: guard?.hooks ?? null,
      warnings,
    });
    return exitCodes.done;
  }
  const server = [
    ["url", url.value, url.from],
    [
      "token",
      shown?.value ?? "none",
      shown?.from ?? "HOLDFAST_TOKEN sets one; holdfast doctor says how to get it",
    ],
  ];
  const rows = [
    ...(authority === null
      ? server
      : [
          ["locks in", placeText(authority.place), authority.why],
          ["authority", authority.place.authority, authority.from],
        ]),
    ...Object.entries(policy)
      .filter(([key]) => key !== "authority" || authority === null)
      .filter(([key]) => key !== "lock_policy" || guard === null)
      .map(([key, value]) => [key, JSON.stringify(value), project ?? ""]),
    ...(guard === null
      ? []
      : [
          ["lock_policy", JSON.stringify(guard.policy.word), guard.policy.from],
          ["hooks", hooksText(guard), ""],
        ]),
    ["your file", existsSync(user) ? user : "none", existsSync(user) ? "" : `it would be ${user}`],
    ["project file", project ?? "none", ""],
  ];
  printLines(...tableLines([{ title: "SETTING" }, { title: "VALUE" }, { title: "FROM" }], rows, null));
  warn(...[...unused, ...warnings].map((line) => `holdfast: ${line}`));
  return exitCodes.done;
}

/** What counts in this clone, which may not be what the project file says; null where there is nothing of it to tell. */
async function guardHere(): Promise<Standing | null> {
  const { guardStanding, isTold } = await import("../guard/standing.js");
  try {
    const standing = await guardStanding();
    return standing !== null && isTold(standing) ? standing : null;
  } catch (error) {
    // A policy that is written wrongly is shown as it is written; doctor says what is wrong with it.
    if (error instanceof CliError) return null;
    throw error;
  }
}

const hooksText = ({ hooks }: Standing): string =>
  Object.entries(hooks)
    .map(([hook, state]) => `${hook} ${state}`)
    .join(", ");

/** The first characters of the id, which is no secret; of a token of another form nothing. */
export function masked(token: string): string {
  const id = /^hf_([A-Za-z0-9]{6})[A-Za-z0-9]*_/.exec(token)?.[1];
  return id === undefined ? "(hidden)" : `hf_${id}…`;
}
