/**
 * Every text of the console that a person reads: a translation is this file. A text with values in it is a function. Named by the
 * view that shows it; the words of settings and states are in format.ts and the errors' in shared/base/errors.ts.
 */
export const text = {
  /** Signing in. */
  entrance: {
    signIn: 'Sign in',
    signOut: 'Sign out',
    signingIn: 'Signing in…',
    anotherToken: 'Another token',
    about: 'The console of this box, by Lineside. Sign in with a token of yours.',
    token: 'Token',
    tokenHint: 'It is kept in this tab until you sign out or close it.',
    tokenMissing: 'Paste or type the token first: it begins with lsd_',
    refused: 'The token is not accepted',
    refusedDetail: 'It was mistyped, or it has been revoked.',
    refusedHint: 'On the box, "lineside token add" makes a new one.',
  },
  /** Head and navigation. */
  shell: {
    skip: 'Skip to the content',
    views: 'Views',
    nothing: 'Nothing to show',
    noRole: 'The token has no role.',
    noView: (roles: readonly string[]) => `The roles of the token (${roles.join(', ')}) open no view of this console.`,
    openedBy: 'Views are opened by viewer, operator, reader, writer and admin.',
  },
  /** Every table. */
  table: {
    loading: 'Loading…',
    more: 'Show more',
    select: 'Select',
    selectRow: (name: string) => `Select ${name}`,
    selectAll: 'Select all that are shown',
    selected: (count: number) => `${count} selected`,
  },
} as const;
