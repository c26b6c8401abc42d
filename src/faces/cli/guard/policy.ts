/**
 * The lock policy of a repository: off, warn or require, and the patterns of paths that need a lock. The project file says
 * it for everybody, a clone may say otherwise. What says it wrongly is an error: a misspelt policy must not be none.
 */
import { existsSync, statSync } from "node:fs";
import { join } from "node:path";
import { nearest } from "../../../core/nearest.js";
import { CliError, exitCodes } from "../failure.js";
import { projectFileName, wrongInProject } from "../project-file.js";
import { tomlIn, tomlOf } from "../toml-file.js";
import { tryGit } from "./git.js";
import { type Glob, parseGlob } from "./globs.js";
import type { Repository } from "./repository.js";

export const policyWords = ["off", "warn", "require"] as const;
export type PolicyWord = (typeof policyWords)[number];

export interface Demand {
  /** As it stands in the project file. */
  readonly pattern: string;
  readonly glob: Glob;
}

export interface LockPolicy {
  readonly word: PolicyWord;
  /** `--policy`, `git config holdfast.lockPolicy`, a file, or `default`. */
  readonly from: string;
  readonly demands: readonly Demand[];
  /** What was found and not heeded. */
  readonly warnings: readonly string[];
}

export const configKey = "holdfast.lockPolicy";

interface Said {
  readonly word: PolicyWord;
  readonly from: string;
}

/** `given`: by a flag. Nothing anywhere is off: who has not asked for locks is not asked for them. */
export async function policyOf(repository: Repository, given?: string): Promise<LockPolicy> {
  const own =
    (given === undefined ? null : { word: checked(given, "--policy"), from: "--policy" }) ??
    (await fromGitConfig()) ??
    (await fromCloneFile(repository));
  // Then nothing else in the project file counts, and it need not be right.
  if (own?.word === "off") return { ...own, demands: [], warnings: [] };
  const { file, values } = await projectOf(repository);
  const { word, from } = own ?? fromProject(values, file) ?? { word: "off", from: "default" };
  return {
    word,
    from,
    demands: word === "off" ? [] : demandsIn(values, file),
    warnings: Object.entries(values).flatMap(([key, value]) => {
      const wrong = wrongInProject(key, value);
      return wrong === null ? [] : [`${file}: ${wrong}`];
    }),
  };
}

function checked(value: unknown, from: string): PolicyWord {
  const word = policyWords.find((one) => one === value);
  if (word !== undefined) return word;
  throw new CliError(
    `${from}: ${JSON.stringify(value)} is no lock policy: it must be "off", "warn" or "require"`,
    exitCodes.usage,
    { code: "invalid_policy" },
  );
}

/** As git reads it: `git -c`, this work tree, this clone, the user, the machine. */
async function fromGitConfig(): Promise<Said | null> {
  const { code, text, complaint } = await tryGit(["config", "--get", configKey]);
  if (code === 1) return null;
  const from = `git config ${configKey}`;
  if (code !== 0) throw new CliError(`${from}: ${complaint}`, exitCodes.usage, { code: "invalid_policy" });
  return { word: checked(text, from), from };
}

const cloneFile = ({ commonDir }: Repository): string => join(commonDir, "holdfast", "config.toml");

async function fromCloneFile(repository: Repository): Promise<Said | null> {
  const file = cloneFile(repository);
  const values = await tomlIn(file);
  if ("lock_policy" in values)
    return { word: checked(values["lock_policy"], `${file}: lock_policy`), from: file };
  const meant = Object.keys(values).find((key) => nearest(key, ["lock_policy"]) !== undefined);
  if (meant !== undefined)
    throw new CliError(
      `${file}: unknown key ${JSON.stringify(meant)}: did you mean lock_policy?`,
      exitCodes.usage,
    );
  return null;
}

type Values = Readonly<Record<string, unknown>>;

/** In a bare repository there are no files to look at: what the default branch says counts. */
async function projectOf({ root }: Repository): Promise<{ file: string; values: Values }> {
  if (root === null) {
    const file = `HEAD:${projectFileName}`;
    const { code, text } = await tryGit(["cat-file", "blob", file]);
    return { file, values: code === 0 ? await tomlOf(text, file) : {} };
  }
  const file = join(root, projectFileName);
  if (existsSync(file) && !statSync(file).isFile())
    throw new CliError(`${file} is no file: put the project's settings there`, exitCodes.usage);
  return { file, values: await tomlIn(file) };
}

function fromProject(values: Values, file: string): Said | null {
  return "lock_policy" in values
    ? { word: checked(values["lock_policy"], `${file}: lock_policy`), from: file }
    : null;
}

function demandsIn(values: Values, file: string): Demand[] {
  const { require = [] } = values;
  if (wrongInProject("require", require) !== null)
    throw new CliError(`${file}: require must be a list of patterns, as ["src/**"]`, exitCodes.usage, {
      code: "invalid_policy",
    });
  return (require as string[]).map((pattern) => {
    const parsed = parseGlob(pattern);
    if ("glob" in parsed) return { pattern, glob: parsed.glob };
    throw new CliError(
      `${file}: require: the pattern ${JSON.stringify(pattern)} cannot be used: ${parsed.invalid}`,
      exitCodes.usage,
      { code: "invalid_policy" },
    );
  });
}
