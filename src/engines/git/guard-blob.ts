/** The guard as it lies in a repository: the floors of tokens, and an id that is new with every change. */
import { tokenMax } from "../../core/limits.js";
import type { FloorRecord } from "../../core/records.js";
import { StoreError } from "../../store/store.js";
import { guardRef } from "./authority.js";

export interface Guard {
  /** By space: below or at it nothing is ever granted again. */
  readonly floors: Readonly<Record<string, number>>;
  /**
   * The grant that it was last changed for. git changes one reference after the other: while the lock still is as it was
   * before, that grant may be on its way, or its writer was ended between the two.
   */
  readonly grant: GuardedGrant | null;
}

export interface GuardedGrant {
  readonly space: string;
  readonly resource: string;
  readonly was: string | null;
}

const formatVersion = 1;

export function encodeGuard(
  before: Guard | null,
  raised: readonly FloorRecord[],
  grant: GuardedGrant | null,
  writeId: string,
): string {
  const floors: Record<string, number> = { ...before?.floors };
  for (const { space, token } of raised) floors[space] = Math.max(token, floors[space] ?? 0);
  return `${JSON.stringify({ holdfast: formatVersion, write_id: writeId, guard: true, floors, grant })}\n`;
}

export function decodeGuard(text: string): Guard {
  const guard = parseGuard(text);
  if (!("damaged" in guard)) return guard;
  const next = guard.isFuture
    ? "update this one"
    : `git update-ref -d ${guardRef} (or a push that deletes it) removes it, after which tokens of locks that were cleaned up may repeat`;
  throw new StoreError(
    "corrupt",
    `${guardRef} ${guard.damaged}: without it tokens could go back, so nothing is granted; ${next}`,
  );
}

export function parseGuard(text: string): Guard | { readonly damaged: string; readonly isFuture: boolean } {
  try {
    const value = JSON.parse(text) as {
      holdfast?: unknown;
      floors?: unknown;
      grant?: unknown;
    };
    if (typeof value.holdfast === "number" && value.holdfast > formatVersion)
      return {
        damaged: `was written by a newer version of Holdfast (format ${value.holdfast})`,
        isFuture: true,
      };
    if (value.holdfast === formatVersion && typeof value.floors === "object" && value.floors !== null) {
      const floors = value.floors as Record<string, unknown>;
      if (Object.values(floors).every(isFloor))
        return { floors: floors as Record<string, number>, grant: grantIn(value.grant) };
    }
  } catch {
    // As below.
  }
  return { damaged: "is damaged", isFuture: false };
}

/** One that leaves no token to come is nobody's. */
const isFloor = (token: unknown): boolean =>
  Number.isSafeInteger(token) && (token as number) >= 0 && (token as number) < tokenMax;

function grantIn(value: unknown): GuardedGrant | null {
  const { space, resource, was } = (value ?? {}) as Partial<GuardedGrant>;
  if (typeof space !== "string" || typeof resource !== "string" || resource === "") return null;
  return { space, resource, was: typeof was === "string" ? was : null };
}
