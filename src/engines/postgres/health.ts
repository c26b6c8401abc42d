/** Tells once that the database fails, and once that it works again, however often either is noticed. */
export class Health {
  #isWell = true;

  constructor(readonly onTrouble: (what: string | null) => void = () => undefined) {}

  failed(what: string, error: unknown): void {
    if (!this.#isWell) return;
    this.#isWell = false;
    this.onTrouble(`${what}: ${error instanceof Error ? error.message : String(error)}`);
  }

  worked(): void {
    if (this.#isWell) return;
    this.#isWell = true;
    this.onTrouble(null);
  }
}
