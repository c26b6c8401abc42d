/**
 * The project file, `.holdfast.toml` in a repository: what everybody who works there shares. Whoever can commit can
 * write it, so it names neither a server nor a token. What is wrong with it is a warning: a stranger's clone, or a newer
 * version's file, must not stop the commands that need nothing of it.
 */
import { existsSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { nearest } from "../../core/nearest.js";
import { CliError } from "./failure.js";
import { tomlIn } from "./toml-file.js";

/** Stands in a repository. */
export const projectFileName = ".holdfast.toml";

export interface Project {
  /** The nearest one, going up from here. */
  readonly file: string | null;
  /** What it may set, and sets rightly. */
  readonly values: Readonly<Record<string, unknown>>;
  readonly warnings: readonly string[];
}

/** Keys that would let a cloned repository send a user's token, or its calls, elsewhere. */
const notForProjects = ["url", "token", "token_file", "store", "server"];

const isText = (value: unknown): value is string => typeof value === "string" && value !== "";

/** What it may set, and how. */
const keys: Readonly<Record<string, { readonly is: string; readonly isRight: (value: unknown) => boolean }>> =
  {
    lock_policy: {
      is: '"off", "warn" or "require"',
      isRight: (value) => isText(value) && ["off", "warn", "require"].includes(value),
    },
    require: {
      is: 'a list of patterns, as ["src/**"]',
      isRight: (value) => Array.isArray(value) && value.every(isText),
    },
    authority: {
      is: 'the name of a git remote, or "local", never a URL',
      isRight: (value) => isText(value) && !/[:\\]|^[./-]/.test(value),
    },
  };

/** `instead`: where a user sets what a project may not. */
export async function projectIn(cwd: string, instead: string): Promise<Project> {
  const file = projectFile(cwd);
  if (file === null) return { file, values: {}, warnings: [] };
  try {
    const found = Object.entries(await tomlIn(file));
    const warnings = found.flatMap(([key, value]) => {
      const wrong = wrongIn(key, value, instead);
      return wrong === null ? [] : [`${file}: ${wrong}`];
    });
    const values = Object.fromEntries(found.filter(([key, value]) => wrongIn(key, value, instead) === null));
    return { file, values, warnings };
  } catch (error) {
    if (!(error instanceof CliError)) throw error;
    return { file, values: {}, warnings: [`the project file is ignored: ${error.message}`] };
  }
}

/** What is wrong with one setting of a project file, or null. */
export const wrongInProject = (key: string, value: unknown): string | null =>
  wrongIn(key, value, "your own configuration file");

function wrongIn(key: string, value: unknown, instead: string): string | null {
  if (notForProjects.includes(key))
    return `${key} is ignored: a project file sets policy and names only. Use HOLDFAST_URL and HOLDFAST_TOKEN, or ${instead}`;
  const known = Object.hasOwn(keys, key) ? keys[key] : undefined;
  if (known !== undefined) return known.isRight(value) ? null : `${key} is ignored: it must be ${known.is}`;
  const meant = nearest(key, Object.keys(keys));
  const advice = meant === undefined ? `there are ${Object.keys(keys).join(", ")}` : `did you mean ${meant}?`;
  return `unknown key ${JSON.stringify(key)} is ignored: ${advice}`;
}

function projectFile(cwd: string): string | null {
  for (let at = resolve(cwd); ; at = dirname(at)) {
    const file = join(at, projectFileName);
    if (existsSync(file)) return file;
    if (dirname(at) === at) return null;
  }
}
