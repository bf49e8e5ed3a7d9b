/** A backup from the browser's device in the place of what the box has: uploaded, shown, confirmed by the name of the box. */
import type { JSX } from 'preact';
import { useContext, useEffect, useState } from 'preact/hooks';
import type { BackupContents } from '../../../shared/gen/http.ts';
import { instantText, sizeText } from '../../format.ts';
import { text } from '../../text.ts';
import { useDoing } from '../loading.ts';
import { Button, Dialog, Done, type Fact, Facts, Form, Section, TextField } from '../parts.tsx';
import { BoxContext, useSession } from '../session.ts';
import { UploadForm, useWork, WorkProgress } from './upload.tsx';

const say = text.administration.restore;
/** The helper starts a unit. */
const PATIENCE_MS = 90_000;

export function Restore(): JSX.Element {
  const { api } = useSession();
  const [backup, setBackup] = useState<BackupContents>();
  const [isAsking, setAsking] = useState(false);
  const [isBegun, setBegun] = useState(false);
  const { own: work, reload } = useWork('restore', isBegun);
  const outcome = work?.state;
  useEffect(() => {
    if (outcome !== undefined && outcome !== 'running') setBegun(false);
  }, [outcome]);
  const isWorking = isBegun || outcome === 'running';
  return (
    <Section title={say.title}>
      <p class="note">{say.about}</p>
      {work !== null && <WorkProgress of={work} steps={say.steps} />}
      {isWorking && <p class="note">{say.working}</p>}
      <Done>{outcome === 'done' && !isWorking ? say.restored(work?.result ?? '') : ''}</Done>
      {!isWorking && (
        <UploadForm
          label={say.file}
          action={say.upload}
          tooLargeHint={say.tooLargeHint}
          onChoose={() => setBackup(undefined)}
          send={async (...sent) => setBackup(await api.upload<BackupContents>('/api/v1/admin/restore/backup', ...sent))}
        />
      )}
      {backup !== undefined && (
        <>
          <div role="status">
            <p>{say.found}</p>
            <Facts of={contents(backup)} />
          </div>
          <Button class="danger" text={say.restore} onClick={() => setAsking(true)} />
        </>
      )}
      {backup !== undefined && isAsking && (
        <Confirm
          backup={backup}
          onBegun={() => {
            setBackup(undefined);
            setBegun(true);
            reload();
          }}
          onClose={() => setAsking(false)}
        />
      )}
    </Section>
  );
}

function contents({
  deviceId,
  createdAt,
  version,
  logBytes,
  refdataBytes,
  configFiles,
  withKeys,
}: BackupContents): Fact[] {
  const sizeOr = (bytes: number | null): string => (bytes === null ? say.notInIt : sizeText(bytes));
  return [
    [say.deviceId, deviceId],
    [say.createdAt, instantText(createdAt)],
    [say.version, version],
    [say.log, sizeOr(logBytes)],
    [say.refdata, sizeOr(refdataBytes)],
    [say.configFiles, configFiles === 0 ? say.notInIt : say.files(configFiles)],
    [say.keys, withKeys ? say.keysIgnored : say.notInIt],
  ];
}

function Confirm(props: { backup: BackupContents; onBegun: () => void; onClose: () => void }): JSX.Element {
  const { backup, onBegun, onClose } = props;
  const { api } = useSession();
  const box = useContext(BoxContext);
  const doing = useDoing();
  const [typed, setTyped] = useState('');
  const [isTried, setTried] = useState(false);
  // The helper decides: the name may have changed meanwhile.
  const fault = isTried && typed === '' ? say.nameMissing : undefined;
  const submit = (): void => {
    setTried(true);
    if (typed === '') return;
    void doing.run(async () => {
      const body = { sha256: backup.sha256, confirm: typed };
      await api.send('POST', '/api/v1/admin/restore', { body, patienceMs: PATIENCE_MS });
      onBegun();
      onClose();
    });
  };
  return (
    <Dialog title={say.confirmTitle} typed={typed !== ''} onClose={onClose}>
      <Form doing={doing} action={say.confirmAction} danger={true} onSubmit={submit}>
        <p>{say.question(backup.deviceId, instantText(backup.createdAt))}</p>
        <ul>
          <li>{backup.logBytes === null ? say.logStays : say.logGoes}</li>
          <li>{say.secretsStay}</li>
          <li>{say.stops}</li>
        </ul>
        <TextField
          label={say.name}
          hint={say.nameHint(box?.name ?? '')}
          fault={fault}
          value={typed}
          onChange={setTyped}
        />
      </Form>
    </Dialog>
  );
}
