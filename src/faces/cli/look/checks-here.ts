/** What `holdfast doctor` checks on this machine: Node, the settings, and who can read the secrets. */
import { existsSync, readdirSync } from "node:fs";
import { join, resolve } from "node:path";
import { operatorTokenFile } from "../../../data-dir.js";
import { tokenAdvice } from "../credentials.js";
import { exitCodes } from "../failure.js";
import { isOpenToOthers, type ServerFlags, type Settings, userDir, userFile } from "../settings.js";
import { masked } from "./config-command.js";
import { doubtful, type Finding, failed, fine } from "./finding.js";

const nodeMin = [20, 19];

export function checkNode(version: string = process.versions.node): Finding {
  const [major = 0, minor = 0] = version.split(".").map(Number);
  const [majorMin = 0, minorMin = 0] = nodeMin;
  if (major > majorMin || (major === majorMin && minor >= minorMin)) return fine("node", `Node ${version}`);
  const wanted = nodeMin.join(".");
  return failed("node", `Node ${version} is too old`, `install Node ${wanted} or later`, exitCodes.other);
}

export function checkSettings(settings: Settings): Finding[] {
  const { url, token, unused } = settings;
  return [
    fine("settings", `server ${url.value} (from ${url.from})`),
    token === null
      ? failed("settings", ["no token", ...unused].join("; "), tokenAdvice(url).join(". "), exitCodes.other)
      : fine("settings", `token ${masked(token.value)} (from ${token.from})`),
    ...checkWarnings(settings),
  ];
}

export const checkWarnings = ({ warnings }: Settings): Finding[] =>
  warnings.map((warning) => doubtful("settings", warning, "holdfast config show lists every setting"));

/** Files that hold a secret, as far as they are there. */
function secretFiles(flags: ServerFlags): string[] {
  const { HOLDFAST_TOKEN_FILE: fromEnv, HOLDFAST_DATA: data } = process.env;
  const kept = userDir(process.env, "XDG_STATE_HOME", ".local", "state");
  const files = [
    userFile(process.env),
    flags.tokenFile ?? fromEnv ?? "",
    operatorTokenFile(resolve(flags.data || data || "./.holdfast")),
    ...filesIn(kept),
  ];
  return files.filter((file) => file !== "" && existsSync(file));
}

function filesIn(dir: string): string[] {
  try {
    return readdirSync(dir, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => join(entry.parentPath, entry.name));
  } catch {
    return [];
  }
}

export const checkPermissions = (flags: ServerFlags): Finding[] => checkFiles(secretFiles(flags));

/** What a worktree keeps for itself. */
export const checkKept = (stateDir: string): Finding[] => checkFiles(filesIn(stateDir));

function checkFiles(files: readonly string[]): Finding[] {
  const open = files.filter(isOpenToOthers);
  if (open.length === 0)
    return [fine("permissions", `no file with a secret can be read by others (${files.length} looked at)`)];
  return open.map((file) =>
    failed("permissions", `${file} can be read by others`, `chmod 600 '${file}'`, exitCodes.other),
  );
}
