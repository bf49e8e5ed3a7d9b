/** A broker in memory for the publisher's tests: it answers each message as it is told, and keeps what arrived. */
import type {
  Broker,
  BrokerListener,
  BrokerState,
  Offered,
  Outcome,
  OutgoingMessage,
  Settled,
} from '../../kafka/face.ts';

/** 'lost' and 'silent' have arrived, and are told as unreached or not at all; 'never' has not, and is not told. */
type Answer = 'acknowledge' | 'refuse' | 'refuse for ever' | 'time out' | 'lost' | 'silent' | 'never';

export class FakeBroker implements Broker {
  /** What arrived, in order. */
  readonly arrived: OutgoingMessage[] = [];
  readonly acknowledged = new Set<number>();
  offers = 0;
  answer: (message: OutgoingMessage) => Answer = () => 'acknowledge';
  /** Messages it takes at a time. */
  capacity = Number.POSITIVE_INFINITY;
  mostOutstanding = 0;
  #connected = true;
  #listener: BrokerListener | undefined;
  readonly #outstanding = new Map<number, OutgoingMessage>();
  #queue: OutgoingMessage[] = [];
  #asked = false;

  offer(message: OutgoingMessage): Offered {
    this.offers++;
    if (!this.#connected) return 'offline';
    if (this.#outstanding.size >= this.capacity) return 'full';
    if (this.#outstanding.has(message.id)) throw new Error(`${message.id} is on its way already`);
    this.#outstanding.set(message.id, message);
    this.mostOutstanding = Math.max(this.mostOutstanding, this.#outstanding.size);
    this.#queue.push(message);
    this.#ask();
    return 'taken';
  }

  set connected(connected: boolean) {
    this.#connected = connected;
    this.#listener?.changed();
  }

  /** What was not told yet is told now. */
  settle(outcome: Outcome): void {
    this.#tell([...this.#outstanding.keys()].map((id) => ({ id, outcome })));
  }

  get outstanding(): number {
    return this.#outstanding.size;
  }

  state(): BrokerState {
    const figures = { forMs: 0, topics: [], outstanding: this.#outstanding.size, outstandingBytes: 0 };
    return { connected: this.#connected, reason: '', producersReplaced: 0, ...figures };
  }

  start(listener?: BrokerListener): void {
    this.#listener = listener;
    listener?.changed();
  }

  async stop(): Promise<void> {
    await new Promise(setImmediate);
    this.settle({ kind: 'unreached', reason: 'stopped' });
  }

  #ask(): void {
    if (this.#asked) return;
    this.#asked = true;
    setImmediate(() => {
      this.#asked = false;
      const told: Settled[] = [];
      for (const message of this.#queue.splice(0)) {
        const outcome = this.#judge(message);
        if (outcome !== undefined) told.push({ id: message.id, outcome });
      }
      this.#tell(told);
    });
  }

  #judge(message: OutgoingMessage): Outcome | undefined {
    const answer = this.answer(message);
    if (answer === 'acknowledge' || answer === 'lost' || answer === 'silent') this.arrived.push(message);
    switch (answer) {
      case 'acknowledge':
        return { kind: 'acknowledged' };
      case 'refuse':
      case 'refuse for ever':
        return { kind: 'refused', reason: 'not allowed', permanent: answer === 'refuse for ever' };
      case 'lost':
      case 'time out':
        return { kind: 'unreached', reason: 'timed out' };
      default:
        return undefined;
    }
  }

  #tell(batch: readonly Settled[]): void {
    const known = batch.filter(({ id }) => this.#outstanding.delete(id));
    for (const { id, outcome } of known) if (outcome.kind === 'acknowledged') this.acknowledged.add(id);
    if (known.length > 0) this.#listener?.settled(known);
  }
}
