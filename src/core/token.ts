/** Bearer tokens as records: made, replaced, revoked, each with its audit record in the same step. */
import type { Decision, View } from "./decision.js";
import { type Draft, deciding } from "./draft.js";
import { auditKey, type Key, tokenKey, tokenNameKey } from "./keys.js";
import type { Policy } from "./limits.js";
import type { AuditAction, TokenRecord } from "./records.js";

export interface TokenChange {
  readonly by: string;
  readonly auditId: string;
  readonly wallAt: number;
}

export type TokenRefusal =
  | { readonly refused: "name_taken" }
  | { readonly refused: "token_unknown" }
  | { readonly refused: "too_many"; readonly max: number };

export const tokenKeys = (token: { id: string; space: string; name: string }): Key[] => [
  tokenKey(token.id),
  tokenNameKey(token.space, token.name),
];

export type NewToken = Omit<TokenRecord, "kind" | "createdAt" | "createdBy" | "expiresAt"> & {
  readonly expiresInMs: number | null;
};

/** A name is a principal, so it belongs to one token of its space. */
export function decideCreateToken(
  view: View,
  token: NewToken,
  change: TokenChange,
  policy: Policy,
): Decision<TokenRecord | TokenRefusal> {
  return deciding(view, policy, (draft) => {
    const nameKey = tokenNameKey(token.space, token.name);
    if (draft.get(nameKey) !== null) return { refused: "name_taken" };
    const { expiresInMs, ...fields } = token;
    const record: TokenRecord = {
      kind: "token",
      ...fields,
      createdAt: draft.now,
      createdBy: change.by,
      expiresAt: expiresInMs === null ? null : draft.now + expiresInMs,
    };
    draft.put(tokenKey(token.id), record);
    draft.put(nameKey, { kind: "token-name", id: token.id });
    audit(draft, record, change, "token_create");
    return record;
  });
}

/** `hash` null revokes; another hash replaces the secret and keeps the principal. */
export function decideChangeToken(
  view: View,
  target: { readonly id: string; readonly space: string },
  hash: string | null,
  change: TokenChange,
  policy: Policy,
): Decision<TokenRecord | TokenRefusal> {
  return deciding(view, policy, (draft) => {
    const key = tokenKey(target.id);
    const record = draft.get(key);
    if (record === null || record.space !== target.space) return { refused: "token_unknown" };
    const next = hash === null ? null : { ...record, hash };
    draft.put(key, next);
    if (next === null) draft.put(tokenNameKey(record.space, record.name), null);
    audit(draft, record, change, next === null ? "token_revoke" : "token_rotate");
    return next ?? record;
  });
}

function audit(draft: Draft, token: TokenRecord, change: TokenChange, action: AuditAction): void {
  draft.emit({ type: "token", space: token.space, id: token.id });
  draft.put(auditKey(token.space, change.auditId), {
    kind: "audit",
    id: change.auditId,
    space: token.space,
    at: draft.now,
    wallAt: change.wallAt,
    principal: change.by,
    action,
    subject: token.name,
    reason: null,
    token: null,
    gcAt: draft.now + draft.policy.auditRetentionMs,
  });
}
