/** The boxes that a command of `fleet` is for. */
import { type Given, option } from '../command.ts';
import type { Profile } from '../connection/endpoint.ts';
import { profilesFile, readProfiles, unknownProfile } from '../connection/profiles.ts';
import { CliFailure, usageFailure } from '../failure.ts';
import { several } from '../hub/hub-command.ts';
import { wholeText } from '../input.ts';
import { safeText } from '../output/hex.ts';
import type { Call } from '../shell.ts';

const maxListBytes = 1024 * 1024;

const group = 'Which boxes (one of these):';
export const boxOptions = [
  option('--all', 'every profile', { group }),
  option('--tag <key=value>', 'profiles with this tag (lineside profile add --tags); repeatable: with all of them', {
    group,
    parse: several((text) => text),
  }),
  option('--boxes <file>', 'names of profiles, one a line (-: standard input)', { group }),
] as const;
type BoxCall = Call<Given<typeof boxOptions>>;

/** By name, each box once. */
export async function chosenBoxes(call: BoxCall): Promise<readonly (readonly [name: string, Profile])[]> {
  const { all, tag, boxes: file } = call.options;
  if ([all, tag, file].filter((one) => one !== undefined).length !== 1)
    throw usageFailure('which boxes is not said', 'Give one of --all, --tag and --boxes.');
  const { profiles } = readProfiles(profilesFile(call.io.env));
  if (file !== undefined) {
    return (await listed(call, file)).map((name) => {
      const profile = profiles.get(name);
      if (profile === undefined) throw unknownProfile(name, profiles);
      return [name, profile];
    });
  }
  const tagged = [...profiles].filter(([, { tags = [] }]) => (tag ?? []).every((one) => tags.includes(one)));
  if (tagged.length > 0) return tagged;
  const what = tag === undefined ? 'there is no profile' : `no profile has the tag ${tag.map(safeText).join(' and ')}`;
  throw new CliFailure('nothing', 'NO_PROFILE', what, { next: 'See: lineside profile list.' });
}

async function listed(call: BoxCall, file: string): Promise<readonly string[]> {
  const refuse = (why: string): CliFailure =>
    new CliFailure('refused', 'BAD_LIST', why, { what: `cannot use ${safeText(file)}` });
  const text = await wholeText(call, file, maxListBytes, '1 MiB', refuse);
  const names = text.split('\n').map((line) => line.replace(/#.*/, '').trim());
  const found = [...new Set(names.filter((name) => name !== ''))];
  if (found.length === 0) throw refuse('it names no box');
  return found;
}
