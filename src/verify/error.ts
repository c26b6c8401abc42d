/** Why a run could not begin, or a report not be read. */
export class VerifyError extends Error {
  override readonly name = "VerifyError";
  constructor(
    message: string,
    /** `usage`: what was given cannot work; `unreachable`: no answer; `refused`: the service does not let it. */
    readonly code: "usage" | "unreachable" | "refused",
  ) {
    super(message);
  }
}
