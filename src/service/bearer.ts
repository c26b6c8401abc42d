/**
 * The text of bearer tokens: `hf_<id>_<secret><check>`. The check part tells a mistyped token from an unknown one
 * without a look-up, and lets scanners recognise a leaked one.
 */
import { createHash, randomBytes } from "node:crypto";

const alphabet = "0123456789ABCDEFGHJKMNPQRSTVWXYZabcdefghjkmnpqrstvwxyz";

/** About 5.75 bits a character, unbiased. */
function randomText(length: number): string {
  const limit = 256 - (256 % alphabet.length);
  let text = "";
  while (text.length < length)
    for (const byte of randomBytes(length))
      if (byte < limit && text.length < length) text += alphabet[byte % alphabet.length];
  return text;
}

export const hashOf = (token: string): string => createHash("sha256").update(token).digest("hex");

const checkOf = (body: string): string => hashOf(body).slice(0, 6);

export interface Bearer {
  readonly id: string;
  readonly token: string;
  readonly hash: string;
}

/** A new token: 12 characters of id, 32 of secret (184 bits), 6 of check. */
export function makeBearer(id: string = randomText(12)): Bearer {
  const body = `hf_${id}_${randomText(32)}`;
  const token = body + checkOf(body);
  return { id, token, hash: hashOf(token) };
}

/** Whether it looks like one of ours but was mistyped or cut off. */
export function isMistyped(token: string): boolean {
  if (!token.startsWith("hf_")) return false;
  return checkOf(token.slice(0, -6)) !== token.slice(-6);
}

export const newId = (prefix: string): string => `${prefix}_${randomBytes(16).toString("base64url")}`;

let audits = 0;

/** What happened in the same millisecond stays in order, as far as one server did it. */
export const newAuditId = (): string =>
  `au_${(++audits).toString(36).padStart(7, "0")}${randomBytes(9).toString("base64url")}`;
