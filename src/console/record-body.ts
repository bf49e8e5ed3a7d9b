/** A record as it is sent: its data letter by letter as typed, so that no number is rounded on the way. Pure. */

/** Why the text is no JSON object; '' where it is one. */
export function objectFault(text: string): string {
  try {
    const found: unknown = JSON.parse(text);
    return typeof found === 'object' && found !== null && !Array.isArray(found)
      ? ''
      : 'This is JSON, but no object: { … }';
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

/** `data` must have no fault. */
export function recordBody(fields: Readonly<Record<string, string>>, data: string): string {
  const others = JSON.stringify(fields).slice(1, -1);
  return `{${others}${others === '' ? '' : ','}"data":${data}}`;
}
