/**
 * What the commands use of the engine that keeps locks in a git repository. It is loaded only where a repository is what
 * a command works on: one that talks to a server never pays for it.
 */
import type { RepositoryStore } from "../../../engines/open.js";

/** A record that cannot be believed. */
export type Trouble = Awaited<ReturnType<RepositoryStore["troubles"]>>[number];

export const loadEngine = (): Promise<typeof import("../../../engines/open.js")> =>
  import("../../../engines/open.js");
