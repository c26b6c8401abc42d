/** Records of a repository that cannot be read: nobody can tell who holds what they are about, so they are told of. */
import type { Place } from "../place.js";
import type { Trouble } from "./engine.js";

export type Unreadable = Pick<Trouble, "what" | "resource" | "ref" | "details">;

/** Among those that were just listed, without another look. Null where there is no repository. */
export async function unreadableAt(place: Place): Promise<readonly Unreadable[] | null> {
  if (place.kind === "server") return null;
  const { store } = await (await import("./access.js")).access(place);
  return (await store.troubles("seen")).filter(({ what }) => what !== "future");
}

/** Else it is what stands beside them: they can be read, and none can be taken. */
export const isOfLock = ({ ref }: Pick<Unreadable, "ref">): boolean => ref.startsWith("refs/holdfast/locks/");

export function unreadableText({ what, resource, ref, details }: Unreadable): string {
  if (!isOfLock({ ref })) return `${ref}: ${details}`;
  const name = `the record of ${resource ?? "a lock"}`;
  return `${name} ${what === "damaged" ? "is damaged and left out" : "cannot be read and is left out"} (${ref}): ${details}`;
}
