/** What one check of `holdfast doctor` found, and what to do about it. */
export interface Finding {
  readonly check: string;
  readonly status: "ok" | "warning" | "failed" | "skipped";
  readonly message: string;
  /** What to do. */
  readonly advice?: string;
  /** Of a failure. */
  readonly exitCode?: number;
}

export const fine = (check: string, message: string): Finding => ({ check, status: "ok", message });

export const skipped = (check: string, message: string): Finding => ({ check, status: "skipped", message });

export const doubtful = (check: string, message: string, advice: string): Finding => ({
  check,
  status: "warning",
  message,
  advice,
});

export const failed = (check: string, message: string, advice: string, exitCode: number): Finding => ({
  check,
  status: "failed",
  message,
  advice,
  exitCode,
});
