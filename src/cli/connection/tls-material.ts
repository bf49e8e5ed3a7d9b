/** What a TLS connection of the CLI is made with. Pure. */

export interface TlsMaterial {
  readonly ca: Buffer | undefined;
  readonly cert: Buffer | undefined;
  readonly key: Buffer | undefined;
  readonly serverName: string | undefined;
  /** `ca` is the one authority of that box alone: what name its certificate is for does not matter. */
  readonly isPinned: boolean;
}
