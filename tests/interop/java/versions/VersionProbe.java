import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.ConsumerGroupListing;
import org.apache.kafka.clients.admin.DescribeClusterOptions;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Tries what most programs do with the Java client, whatever its version: arguments are the bootstrap servers, a name
 * that is used for the topic, the group and the transactional id, and the steps to try. Prints one line per step: its
 * name, a tab, and `ok` or what went wrong. Only API that every version since 2.8 has is used here.
 */
public final class VersionProbe {
    private static final int RECORDS = 100;
    private static final List<String> CODECS = Arrays.asList("none", "gzip", "snappy", "lz4", "zstd");
    private static final String RETENTION_MS = "123456789";
    private static final Duration PATIENCE = Duration.ofSeconds(30);

    private final String servers;
    private final String name;

    private VersionProbe(String servers, String name) {
        this.servers = servers;
        this.name = name;
    }

    private Map<String, Object> settings(Object... pairs) {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", servers);
        for (int each = 0; each < pairs.length; each += 2) {
            settings.put((String) pairs[each], pairs[each + 1]);
        }
        return settings;
    }

    private static void step(String step, Callable<Void> work) {
        String outcome = "ok";
        try {
            work.call();
        } catch (Exception | AssertionError problem) {
            outcome = problem.toString().replace('\n', ' ');
        }
        System.out.println(step + "\t" + outcome);
    }

    private static void check(boolean holds, String problem) {
        if (!holds) {
            throw new AssertionError(problem);
        }
    }

    private Void createTopic() throws Exception {
        try (Admin admin = Admin.create(settings())) {
            admin.createTopics(Collections.singleton(new NewTopic(name, 2, (short) 1))).all().get();
            check(admin.listTopics().names().get().contains(name), "the topic is not listed");
            check(!admin.describeCluster().nodes().get().isEmpty(), "the cluster has no nodes");
        }
        return null;
    }

    private KafkaProducer<String, String> producer(Object... pairs) {
        return new KafkaProducer<>(settings(pairs), new StringSerializer(), new StringSerializer());
    }

    private Void produce() throws Exception {
        for (int codec = 0; codec < CODECS.size(); codec++) {
            produce(CODECS.get(codec), codec);
        }
        return null;
    }

    private void produce(String codec, int first) throws Exception {
        try (KafkaProducer<String, String> producer =
                producer("acks", "all", "enable.idempotence", "true", "compression.type", codec)) {
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (int number = first; number < RECORDS; number += CODECS.size()) {
                sent.add(producer.send(new ProducerRecord<>(name, number % 2, "key", "value-" + number)));
            }
            for (Future<RecordMetadata> each : sent) {
                each.get();
            }
        }
    }

    private KafkaConsumer<String, String> consumer(Object... pairs) {
        Map<String, Object> settings = settings(pairs);
        settings.put("auto.offset.reset", "earliest");
        settings.put("enable.auto.commit", "false");
        return new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
    }

    private static List<String> read(KafkaConsumer<String, String> consumer, int count) {
        List<String> values = new ArrayList<>();
        long end = System.nanoTime() + PATIENCE.toNanos();
        while (values.size() < count && System.nanoTime() < end) {
            for (ConsumerRecord<String, String> each : consumer.poll(Duration.ofMillis(100))) {
                values.add(each.value());
            }
        }
        check(values.size() == count, values.size() + " records were read instead of " + count);
        check(new HashSet<>(values).size() == count, "a record was read twice");
        return values;
    }

    private List<TopicPartition> partitions() {
        return Arrays.asList(new TopicPartition(name, 0), new TopicPartition(name, 1));
    }

    private Void consume() {
        try (KafkaConsumer<String, String> consumer = consumer()) {
            consumer.assign(partitions());
            check(read(consumer, RECORDS).contains("value-" + (RECORDS - 1)), "the last record is missing");
        }
        return null;
    }

    private Void group(String group, Object... pairs) throws Exception {
        List<Object> settings = new ArrayList<>(Arrays.asList(pairs));
        settings.addAll(Arrays.asList("group.id", group));
        try (KafkaConsumer<String, String> consumer = consumer(settings.toArray())) {
            consumer.subscribe(Collections.singleton(name));
            read(consumer, RECORDS);
            consumer.commitSync();
        }
        try (Admin admin = Admin.create(settings())) {
            long committed = 0;
            for (OffsetAndMetadata each : admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get().values()) {
                committed += each.offset();
            }
            check(committed == RECORDS, committed + " records are committed");
        }
        return null;
    }

    private Void transaction() throws Exception {
        try (KafkaProducer<String, String> producer = producer("transactional.id", name)) {
            producer.initTransactions();
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(name, 0, "key", "aborted"));
            producer.abortTransaction();
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(name, 0, "key", "committed"));
            producer.commitTransaction();
        }
        try (KafkaConsumer<String, String> consumer = consumer("isolation.level", "read_committed")) {
            consumer.assign(partitions());
            List<String> values = read(consumer, RECORDS + 1);
            check(values.contains("committed") && !values.contains("aborted"), "the transaction is not atomic");
        }
        return null;
    }

    private Void administer() throws Exception {
        try (Admin admin = Admin.create(settings())) {
            ConfigResource topic = new ConfigResource(ConfigResource.Type.TOPIC, name);
            AlterConfigOp set = new AlterConfigOp(new ConfigEntry("retention.ms", RETENTION_MS), AlterConfigOp.OpType.SET);
            admin.incrementalAlterConfigs(Collections.singletonMap(topic, Collections.singleton(set))).all().get();
            Config config = admin.describeConfigs(Collections.singleton(topic)).all().get().get(topic);
            check(config.get("retention.ms").value().equals(RETENTION_MS), "the setting is not changed");
            admin.createPartitions(Collections.singletonMap(name, NewPartitions.increaseTo(3))).all().get();
            DescribeClusterOptions all = new DescribeClusterOptions().includeAuthorizedOperations(true);
            check(admin.describeCluster(all).authorizedOperations().get().contains(AclOperation.CREATE), "not authorized");
            describeGroup(admin);
            deleteRecords(admin);
        }
        try (KafkaProducer<String, String> producer = producer()) {
            check(producer.partitionsFor(name).size() == 3, "there is no third partition");
        }
        return null;
    }

    private void describeGroup(Admin admin) throws Exception {
        boolean isListed = false;
        for (ConsumerGroupListing each : admin.listConsumerGroups().all().get()) {
            isListed |= each.groupId().equals(name);
        }
        check(isListed, "the group is not listed");
        ConsumerGroupDescription group =
                admin.describeConsumerGroups(Collections.singleton(name)).all().get().get(name);
        check(group.members().isEmpty(), "the group has members");
    }

    private void deleteRecords(Admin admin) throws Exception {
        TopicPartition partition = new TopicPartition(name, 1);
        admin.deleteRecords(Collections.singletonMap(partition, RecordsToDelete.beforeOffset(10))).all().get();
        long start = admin.listOffsets(Collections.singletonMap(partition, OffsetSpec.earliest())).all().get()
                .get(partition).offset();
        check(start == 10, "the log begins at " + start);
    }

    private Void delete() throws Exception {
        try (Admin admin = Admin.create(settings())) {
            admin.deleteConsumerGroups(Collections.singleton(name)).all().get();
            admin.deleteTopics(Collections.singleton(name)).all().get();
        }
        return null;
    }

    private Callable<Void> work(String step) {
        switch (step) {
            case "create":
                return this::createTopic;
            case "produce":
                return this::produce;
            case "consume":
                return this::consume;
            case "group":
                return () -> group(name);
            case "consumer-protocol":
                return () -> group(name + "-2", "group.protocol", "consumer");
            case "transaction":
                return this::transaction;
            case "admin":
                return this::administer;
            case "delete":
                return this::delete;
            default:
                throw new IllegalArgumentException(step);
        }
    }

    public static void main(String[] arguments) {
        VersionProbe probe = new VersionProbe(arguments[0], arguments[1]);
        for (int each = 2; each < arguments.length; each++) {
            step(arguments[each], probe.work(arguments[each]));
        }
    }
}
