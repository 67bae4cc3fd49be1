// kafkajs. Arguments are the bootstrap servers, a name that is used for the topic, the group and the transactional id, and
// the steps to try. Prints one line per step: its name, a tab, and `ok` or what went wrong.
const { Kafka, CompressionTypes, ConfigResourceTypes, logLevel } = require("kafkajs");

const TIMEOUT_MS = 30000;
const PARTITIONS = 2;
const RETENTION_MS = "123456789";
const VALUES = Array.from({ length: 100 }, (_, number) => `value-${number}`);
// The others need packages that the client does not bring.
const CODECS = [CompressionTypes.None, CompressionTypes.GZIP];

const [servers, topic, ...chosen] = process.argv.slice(2);
const kafka = new Kafka({ brokers: servers.split(","), logLevel: logLevel.NOTHING });

function check(holds, problem) {
  if (!holds) throw new Error(problem);
}

async function withAdmin(work) {
  const admin = kafka.admin();
  await admin.connect();
  try {
    return await work(admin);
  } finally {
    await admin.disconnect();
  }
}

function messages(values) {
  return values.map((value, number) => ({ key: "key", value, partition: number % PARTITIONS }));
}

// Reads as a member of the group until the expected values were read.
async function read(groupId, expected, settings = {}) {
  const consumer = kafka.consumer({ groupId, ...settings });
  const values = [];
  await consumer.connect();
  try {
    await consumer.subscribe({ topics: [topic], fromBeginning: true });
    await new Promise((resolve, reject) => {
      const late = setTimeout(() => reject(new Error(`${values.length} records were read`)), TIMEOUT_MS);
      consumer.on(consumer.events.COMMIT_OFFSETS, () => {
        if (values.length >= expected.length) {
          clearTimeout(late);
          resolve();
        }
      });
      consumer
        .run({
          autoCommitThreshold: 1,
          eachMessage: async ({ message }) => {
            values.push(message.value.toString());
          },
        })
        .catch(reject);
    });
  } finally {
    await consumer.disconnect();
  }
  check(JSON.stringify(values.sort()) === JSON.stringify([...expected].sort()), "other records were read");
}

const steps = {
  create: () =>
    withAdmin(async (admin) => {
      check(await admin.createTopics({ topics: [{ topic, numPartitions: PARTITIONS }] }), "the topic was there");
      check((await admin.listTopics()).includes(topic), "the topic is not listed");
    }),

  produce: async () => {
    const producer = kafka.producer({ idempotent: true });
    await producer.connect();
    for (const [index, compression] of CODECS.entries()) {
      const share = VALUES.filter((_, number) => number % CODECS.length === index);
      await producer.send({ topic, acks: -1, compression, messages: messages(share) });
    }
    await producer.disconnect();
  },

  consume: () => read(`${topic}-reader`, VALUES),

  group: async () => {
    await read(topic, VALUES);
    await withAdmin(async (admin) => {
      const [{ partitions }] = await admin.fetchOffsets({ groupId: topic, topics: [topic] });
      const committed = partitions.reduce((sum, { offset }) => sum + Number(offset), 0);
      check(committed === VALUES.length, `${committed} records are committed`);
    });
  },

  transaction: async () => {
    const producer = kafka.producer({ transactionalId: topic, maxInFlightRequests: 1, idempotent: true });
    await producer.connect();
    const aborted = await producer.transaction();
    await aborted.send({ topic, messages: messages(["aborted"]) });
    await aborted.abort();
    const committed = await producer.transaction();
    await committed.send({ topic, messages: messages(["committed"]) });
    await committed.commit();
    await producer.disconnect();
    await read(`${topic}-committed`, [...VALUES, "committed"], { readUncommitted: false });
  },

  admin: () =>
    withAdmin(async (admin) => {
      const resource = { type: ConfigResourceTypes.TOPIC, name: topic };
      const configEntries = [{ name: "retention.ms", value: RETENTION_MS }];
      await admin.alterConfigs({ resources: [{ ...resource, configEntries }] });
      const { resources } = await admin.describeConfigs({ resources: [{ ...resource, configNames: ["retention.ms"] }] });
      check(resources[0].configEntries[0].configValue === RETENTION_MS, "the setting is not changed");
      await admin.createPartitions({ topicPartitions: [{ topic, count: 3 }] });
      const { topics } = await admin.fetchTopicMetadata({ topics: [topic] });
      check(topics[0].partitions.length === 3, "there is no third partition");
      check((await admin.listGroups()).groups.some(({ groupId }) => groupId === topic), "the group is not listed");
      const { groups } = await admin.describeGroups([topic]);
      check(groups[0].state === "Empty", "the group has members");
      await admin.deleteTopicRecords({ topic, partitions: [{ partition: 1, offset: "10" }] });
      const offsets = await admin.fetchTopicOffsets(topic);
      check(offsets.some(({ low }) => low === "10"), "no records are deleted");
    }),

  delete: () =>
    withAdmin(async (admin) => {
      await admin.deleteGroups([topic]);
      await admin.deleteTopics({ topics: [topic] });
      check(!(await admin.listTopics()).includes(topic), "the topic is still listed");
    }),
};

async function main() {
  for (const step of chosen) {
    let outcome = "ok";
    try {
      await steps[step]();
    } catch (problem) {
      outcome = `${problem.name}: ${problem.message}`.replace(/\s+/g, " ");
    }
    console.log(`${step}\t${outcome}`);
  }
}

main();
