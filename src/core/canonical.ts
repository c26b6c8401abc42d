/** One text for values that mean the same: JSON whose objects have their keys in order, at every depth. */
export const canonical = (value: unknown): string => JSON.stringify(value, inOrder);

const inOrder = (_key: string, value: unknown): unknown =>
  typeof value === "object" && value !== null && !Array.isArray(value)
    ? Object.fromEntries(Object.entries(value).sort(([one], [other]) => (one < other ? -1 : 1)))
    : value;
