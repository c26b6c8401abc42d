/** The guard as it lies in a repository: the floors of tokens, and an id that is new with every change. */
import type { FloorRecord } from "../../core/records.js";
import { StoreError } from "../../store/store.js";
import { guardRef } from "./authority.js";

export interface Guard {
  /** By space: below or at it nothing is ever granted again. */
  readonly floors: Readonly<Record<string, number>>;
}

const formatVersion = 1;

export function encodeGuard(before: Guard | null, raised: readonly FloorRecord[], writeId: string): string {
  const floors: Record<string, number> = { ...before?.floors };
  for (const { space, token } of raised) floors[space] = Math.max(token, floors[space] ?? 0);
  return `${JSON.stringify({ holdfast: formatVersion, write_id: writeId, guard: true, floors })}\n`;
}

export function decodeGuard(text: string): Guard {
  try {
    const value = JSON.parse(text) as { holdfast?: unknown; floors?: unknown };
    if (value.holdfast === formatVersion && typeof value.floors === "object" && value.floors !== null) {
      const floors = value.floors as Record<string, unknown>;
      if (Object.values(floors).every((token) => Number.isSafeInteger(token)))
        return { floors: floors as Record<string, number> };
    }
  } catch {
    // As below.
  }
  throw new StoreError(
    "corrupt",
    `${guardRef} is damaged, or written by a newer version of Holdfast: without it tokens could go back, so nothing is granted`,
  );
}
