/** `holdfast config show`: each setting and where it came from. Nothing secret is shown. */
import { existsSync } from "node:fs";
import { exitCodes } from "../failure.js";
import { printJson, printLines, warn } from "../output.js";
import { type ServerFlags, settingsOf, userFile } from "../settings.js";
import { tableLines } from "./table.js";

export interface ConfigFlags extends ServerFlags {
  readonly json?: boolean;
}

export async function showConfig(flags: ConfigFlags): Promise<number> {
  const { url, token, unused, warnings, project: found } = await settingsOf(flags);
  const { file: project, values: policy } = found;
  const user = userFile(process.env);
  const shown = token === null ? null : { value: masked(token.value), from: token.from };
  if (flags.json === true) {
    printJson({
      url,
      token: shown,
      unused,
      files: { user: { path: user, exists: existsSync(user) }, project },
      policy: Object.fromEntries(
        Object.entries(policy).map(([key, value]) => [key, { value, from: project }]),
      ),
      warnings,
    });
    return exitCodes.done;
  }
  const rows = [
    ["url", url.value, url.from],
    [
      "token",
      shown?.value ?? "none",
      shown?.from ?? "HOLDFAST_TOKEN sets one; holdfast doctor says how to get it",
    ],
    ...Object.entries(policy).map(([key, value]) => [key, JSON.stringify(value), project ?? ""]),
    ["your file", existsSync(user) ? user : "none", existsSync(user) ? "" : `it would be ${user}`],
    ["project file", project ?? "none", ""],
  ];
  printLines(...tableLines([{ title: "SETTING" }, { title: "VALUE" }, { title: "FROM" }], rows, null));
  warn(...[...unused, ...warnings].map((line) => `holdfast: ${line}`));
  return exitCodes.done;
}

/** The first characters of the id, which is no secret; of a token of another form nothing. */
export function masked(token: string): string {
  const id = /^hf_([A-Za-z0-9]{6})[A-Za-z0-9]*_/.exec(token)?.[1];
  return id === undefined ? "(hidden)" : `hf_${id}…`;
}
