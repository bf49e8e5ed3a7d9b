/** Query strings, strictly: each parameter once, properly encoded, few of them. Pure. */
import { MAX_QUERY_PARAMETERS, MAX_QUOTED_CHARS } from './limits.ts';

/** Set in place of the parameters where the text is none that can be read; the router cannot be thrown at. */
export const queryFault: unique symbol = Symbol('queryFault');

export type Query = Readonly<Record<string, string>> & { readonly [queryFault]?: string };

/** "+" is a plus, not a space: times carry their offset so ("at=2026-03-01T09:30:00+00:00"). */
export function parseQuery(text: string): Query {
  const parameters: Record<string, string> = Object.create(null) as Record<string, string>;
  let start = 0;
  for (let count = 0; start < text.length; count += 1) {
    if (count === MAX_QUERY_PARAMETERS) return faulty(`has more than ${MAX_QUERY_PARAMETERS} parameters`);
    const ampersand = text.indexOf('&', start);
    const end = ampersand === -1 ? text.length : ampersand;
    const part = text.slice(start, end);
    start = end + 1;
    if (part === '') continue;
    const equals = part.indexOf('=');
    const name = decoded(equals === -1 ? part : part.slice(0, equals));
    const value = decoded(equals === -1 ? '' : part.slice(equals + 1));
    if (name === undefined || value === undefined) return faulty('is not properly percent-encoded UTF-8');
    if (name in parameters) return faulty(`has "${name.slice(0, MAX_QUOTED_CHARS)}" twice`);
    parameters[name] = value;
  }
  return parameters;
}

function faulty(message: string): Query {
  return Object.assign(Object.create(null) as Record<string, string>, { [queryFault]: message });
}

function decoded(text: string): string | undefined {
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}
