/**
 * How much of lists may be on its way at once. A page is large, and whoever asks for many and reads none would have
 * the server keep them all; so each takes its room when it is asked for, and gives it back when it was sent.
 */
import type { FastifyReply } from "fastify";
import type { Identity } from "../../service/identity.js";
import { refuse } from "./answer.js";
import { onDeparture } from "./departure.js";

/** Bytes that a row may take: its texts at their longest, in an alphabet of two bytes a letter. */
const rowBytes = 4096;
/** Bytes of all pages together. What a small machine can spare. */
const roomMax = 128 * 1_048_576;
/** Half of it stays for others. */
const roomPerPrincipalMax = roomMax / 2;

export class PageRoom {
  readonly #perPrincipal = new Map<string, number>();
  #taken = 0;

  /** Takes room for a page of so many rows until the reply is sent, or refuses. */
  take({ space, principal }: Identity, rows: number, reply: FastifyReply): void {
    const who = `${space}/${principal}`;
    const bytes = rows * rowBytes;
    const own = this.#perPrincipal.get(who) ?? 0;
    if (this.#taken + bytes > roomMax || own + bytes > roomPerPrincipalMax)
      refuse(
        "unavailable",
        "Too many pages of lists are on their way. Read those before asking for more, or ask for smaller ones.",
        { retryAfterMs: 1000 },
      );
    this.#add(who, bytes);
    onDeparture(reply, () => this.#add(who, -bytes));
  }

  #add(who: string, bytes: number): void {
    this.#taken += bytes;
    const own = (this.#perPrincipal.get(who) ?? 0) + bytes;
    if (own === 0) this.#perPrincipal.delete(who);
    else this.#perPrincipal.set(who, own);
  }
}
