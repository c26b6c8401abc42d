/** Who calls: what a bearer token stands for, and what it may do. */
import type { Role } from "../core/records.js";

export interface Identity {
  readonly tokenId: string;
  readonly principal: string;
  readonly space: string;
  readonly role: Role;
  readonly scopes: readonly string[];
  readonly reentrant: boolean;
  /** Engine time, or null. */
  readonly expiresAt: number | null;
  /** Aborted when the token is revoked or replaced: open streams end with it. */
  readonly revoked: AbortSignal;
}

const rank: Readonly<Record<Role, number>> = { observer: 0, worker: 1, admin: 2, operator: 3 };

/** Each role may do all that the ones below it may. */
export const hasRole = (identity: Pick<Identity, "role">, least: Role): boolean =>
  rank[identity.role] >= rank[least];

/** Whether one of the scopes covers the name; `*` matches any characters. */
export function mayTouch(identity: Pick<Identity, "scopes">, name: string): boolean {
  return identity.scopes.some((scope) => scope === "*" || matches(scope, name));
}

/** Whether everything that `scope` covers is covered by these: nobody hands out more than it has. */
export const covers = (identity: Pick<Identity, "scopes">, scope: string): boolean =>
  mayTouch(identity, normalScope(scope));

/** Names are in NFC, so a scope in another form would cover none. */
export const normalScope = (scope: string): string => scope.normalize("NFC");

/** Linear in the name's length, whatever the scope: no backtracking that a caller could make slow. */
export function matches(scope: string, name: string): boolean {
  const parts = scope.split("*");
  const first = parts[0] ?? "";
  const last = parts.at(-1) ?? "";
  if (parts.length === 1) return name === scope;
  if (!name.startsWith(first) || name.length < first.length + last.length || !name.endsWith(last))
    return false;
  let at = first.length;
  const end = name.length - last.length;
  for (const part of parts.slice(1, -1)) {
    const found = name.indexOf(part, at);
    if (found === -1 || found + part.length > end) return false;
    at = found + part.length;
  }
  return true;
}
