/**
 * argv to subcommand, and its exit status. `serve` and the set-up at the start of a box load nothing of the command line, which loads
 * nothing of `serve`.
 */
import packageJson from '../package.json' with { type: 'json' };

const { version } = packageJson;

async function main(argv: readonly string[]): Promise<number> {
  if (argv[0] === 'serve') {
    const { serve } = await import('./serve/serve.ts');
    return serve(argv.slice(1), version);
  }
  if (argv[0] === 'setup' && argv[1] === 'apply') {
    const { setupAtStart } = await import('./appliance/setup/setup-apply.ts');
    const status = setupAtStart(argv.slice(2));
    if (status !== undefined) return status;
  }
  const [{ runCli }, { processIo }, { addLocalCommands, localSocket }] = await Promise.all([
    import('./cli/cli.ts'),
    import('./cli/io.ts'),
    import('./local-commands.ts'),
  ]);
  return runCli(argv, processIo(), { version, localSocket, local: addLocalCommands });
}

process.exitCode = await main(process.argv.slice(2));
// A host name that is still being looked up would hold the process, for which a shell waits.
if (process.argv[2] === '__complete') process.exit();
