/**
 * Where the next page of a list begins. A list may stop at a name that the caller must not see, so whoever may not see
 * everything gets the place sealed. The key lives as long as the process: after a restart such a list begins anew.
 */
import { createCipheriv, createDecipheriv, randomBytes } from "node:crypto";
import { refuse } from "./answer.js";
import type { Call } from "./call.js";

const cipher = "aes-256-gcm";
const key = randomBytes(32);
const ivBytes = 12;
const tagBytes = 16;
/** No base64 begins with it. */
const sealMark = "~";

const seesAll = (call: Call): boolean => call.identity.scopes.includes("*");

export function toCursor(call: Call, sort: string | null): string | null {
  if (sort === null) return null;
  return seesAll(call) ? Buffer.from(sort).toString("base64url") : sealed(sort);
}

/** The place a cursor stands for; it must lie in the caller's space. */
export function fromCursor(call: Call, cursor: string | undefined): string | null {
  if (cursor === undefined || cursor === "") return null;
  const sort = cursor.startsWith(sealMark)
    ? unsealed(cursor.slice(sealMark.length))
    : Buffer.from(cursor, "base64url").toString();
  return sort?.startsWith(`${call.space}/`) && /^[\x20-\x7e]+$/.test(sort)
    ? sort
    : refuse("invalid_input", "This cursor is not one that this list gave: start again without it.");
}

function sealed(sort: string): string {
  const iv = randomBytes(ivBytes);
  const sealing = createCipheriv(cipher, key, iv);
  const bytes = Buffer.concat([iv, sealing.update(sort, "utf8"), sealing.final(), sealing.getAuthTag()]);
  return sealMark + bytes.toString("base64url");
}

function unsealed(text: string): string | null {
  const bytes = Buffer.from(text, "base64url");
  if (bytes.length < ivBytes + tagBytes) return null;
  try {
    const opening = createDecipheriv(cipher, key, bytes.subarray(0, ivBytes), { authTagLength: tagBytes });
    opening.setAuthTag(bytes.subarray(-tagBytes));
    return opening.update(bytes.subarray(ivBytes, -tagBytes), undefined, "utf8") + opening.final("utf8");
  } catch {
    return null; // of another process, or of nobody
  }
}
