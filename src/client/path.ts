/** Names in paths. */
import { HoldfastError } from "./errors.js";

/**
 * A name as one segment of a path. What a URL would make another path of is refused here; every other name is the
 * server's to judge.
 */
export function segment(
  name: string,
  code: "invalid_lock_name" | "invalid_node" = "invalid_lock_name",
): string {
  try {
    if (!/^\.{0,2}$/.test(name)) return encodeURIComponent(name);
  } catch {
    // Half a character: told below.
  }
  throw new HoldfastError(
    `${JSON.stringify(name)} is no name: give it letters or digits, as in deploy-main`,
    {
      code,
      status: null,
      requestId: null,
      fields: {},
    },
  );
}
