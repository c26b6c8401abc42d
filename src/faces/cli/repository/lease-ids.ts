/**
 * The two sides of a lease id. What proves a lease (the wire's `lease_id`, `nonce` in JSON) stays with whoever took it;
 * records that everybody with access to the repository can read hold only its hash. A nonce follows from the request id,
 * so that a repeat of the request finds the lease it was granted.
 */
import { createHash, createHmac, randomBytes } from "node:crypto";

export const newNonce = (secret: Buffer, name: string, requestId: string | null): string =>
  requestId === null
    ? randomBytes(16).toString("hex")
    : createHmac("sha256", secret)
        .update(JSON.stringify([name, requestId]))
        .digest("hex");

/** The lease's id as the rules and the records know it. */
export const hashOfNonce = (nonce: string): string => createHash("sha256").update(nonce).digest("hex");
