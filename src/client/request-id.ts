/** Ids that make a repeat of a call recognisable. */

/** `crypto.randomUUID` is missing in pages that were not loaded over TLS. */
export function newRequestId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return `rq_${Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}
