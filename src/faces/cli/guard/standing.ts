/** How the lock policy stands in this clone, for those who only want to know: which one counts, and which hooks heed it. */
import { join, resolve } from "node:path";
import { tryGit } from "./git.js";
import { type HookName, hookNames } from "./hook-script.js";
import { type HookState, stateIn } from "./hooks.js";
import { type LockPolicy, policyOf } from "./policy.js";
import { repositoryHere } from "./repository.js";

export interface Standing {
  readonly policy: Pick<LockPolicy, "word" | "from">;
  readonly hooks: Readonly<Record<HookName, HookState>>;
}

/** null: this is no work tree. Throws where the policy is written wrongly. */
export async function guardStanding(): Promise<Standing | null> {
  const repository = await repositoryHere().catch(() => null);
  if (repository === null || repository.root === null) return null;
  const { root, commonDir } = repository;
  const set = await tryGit(["config", "--type=path", "--get", "core.hooksPath"]);
  const dir = set.code === 0 ? resolve(root, set.text) : join(commonDir, "hooks");
  const { word, from } = await policyOf(repository);
  const [commit, push] = hookNames.map((hook) => stateIn(dir, hook));
  return {
    policy: { word, from },
    hooks: { "pre-commit": commit ?? "missing", "pre-push": push ?? "missing" },
  };
}

/** Whether there is anything to tell: nobody who has no policy and no hooks of ours need hear of them. */
export const isTold = ({ policy, hooks }: Standing): boolean =>
  policy.word !== "off" || Object.values(hooks).some((state) => state !== "missing");

export const missingIn = ({ hooks }: Standing): HookName[] =>
  hookNames.filter((hook) => hooks[hook] !== "installed");
