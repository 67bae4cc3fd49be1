import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * One member of a group in a process of its own: reads, commits what it read, and writes down all that happens to it,
 * as tests/support/groups/member.py does. It leaves its group when it reads a line, and is gone when whoever started it is.
 */
final class Member implements ConsumerRebalanceListener {
    private static final Duration POLL = Duration.ofMillis(50);
    private static final int RECORDS_MAX = 2000;
    private static final int REBALANCE_TIMEOUT_MS = 10_000;

    private static volatile boolean isToldToLeave;

    private final PrintStream events = new PrintStream(System.out, true, StandardCharsets.UTF_8);
    private final KafkaConsumer<byte[], byte[]> consumer;
    private final String topic;
    private final long sessionNs;
    private final TreeSet<Integer> owned = new TreeSet<>();
    private final Map<TopicPartition, OffsetAndMetadata> uncommitted = new HashMap<>();
    private long awakeNs = System.nanoTime();
    private boolean hasOverslept;

    private Member(JsonNode options) {
        topic = options.get("topic").asText();
        sessionNs = Duration.ofMillis(options.get("session_timeout_ms").asLong()).toNanos();
        consumer = new KafkaConsumer<>(settings(options), new ByteArrayDeserializer(), new ByteArrayDeserializer());
        if (options.get("client").asText().equals("java-regex")) {
            consumer.subscribe(new SubscriptionPattern(topic + ".*"), this);
        } else {
            consumer.subscribe(List.of(topic), this);
        }
    }

    static void run(String options) throws IOException {
        Thread listening = new Thread(Member::listen);
        listening.setDaemon(true);
        listening.start();
        new Member(Interop.JSON.readTree(options)).work();
    }

    private static void listen() {
        try {
            if (System.in.read() < 0) {
                Runtime.getRuntime().halt(1);
            }
        } catch (IOException error) {
            Runtime.getRuntime().halt(1);
        }
        isToldToLeave = true;
    }

    private static Map<String, Object> settings(JsonNode options) {
        Map<String, Object> settings = new HashMap<>();
        settings.put(ConsumerConfig.BOOTSTRAP_SERVERS_CONFIG, options.get("bootstrap_servers").asText());
        settings.put(ConsumerConfig.GROUP_ID_CONFIG, options.get("group").asText());
        settings.put(ConsumerConfig.CLIENT_ID_CONFIG, options.get("name").asText());
        settings.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest");
        settings.put(ConsumerConfig.ENABLE_AUTO_COMMIT_CONFIG, false);
        settings.put(ConsumerConfig.MAX_POLL_RECORDS_CONFIG, RECORDS_MAX);
        settings.put(ConsumerConfig.MAX_POLL_INTERVAL_MS_CONFIG, REBALANCE_TIMEOUT_MS);
        settings.put(ConsumerConfig.FETCH_MAX_WAIT_MS_CONFIG, 100);
        switch (options.get("client").asText()) {
            case "java-cooperative" -> classic(settings, options, CooperativeStickyAssignor.class);
            case "java-range" -> classic(settings, options, RangeAssignor.class);
            default -> settings.put(ConsumerConfig.GROUP_PROTOCOL_CONFIG, "consumer");
        }
        return settings;
    }

    private static void classic(Map<String, Object> settings, JsonNode options, Class<?> assignor) {
        settings.put(ConsumerConfig.SESSION_TIMEOUT_MS_CONFIG, options.get("session_timeout_ms").asInt());
        settings.put(ConsumerConfig.HEARTBEAT_INTERVAL_MS_CONFIG, options.get("heartbeat_interval_ms").asInt());
        settings.put(ConsumerConfig.PARTITION_ASSIGNMENT_STRATEGY_CONFIG, assignor.getName());
    }

    private void work() {
        while (!isToldToLeave) {
            stayAwake();
            process(consumer.poll(POLL));
            commit();
        }
        // Nothing is processed any more, and the broker does not know it yet.
        giveUp("revoked", consumer.assignment());
        consumer.close();
    }

    /** Whoever stood still for a session is out of its group, although its client may have to learn that yet. */
    private void stayAwake() {
        long now = System.nanoTime();
        hasOverslept |= now - awakeNs > sessionNs;
        awakeNs = now;
    }

    // -- what the client tells, always within poll or close

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
        TreeSet<Integer> assigned = numbers(partitions);
        owned.addAll(assigned);
        hasOverslept = false;
        write("assigned", Interop.JSON.valueToTree(assigned));
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
        giveUp("revoked", partitions);
    }

    @Override
    public void onPartitionsLost(Collection<TopicPartition> partitions) {
        giveUp("lost", partitions);
    }

    private void giveUp(String how, Collection<TopicPartition> partitions) {
        stayAwake();
        TreeSet<Integer> givenUp = numbers(partitions);
        givenUp.retainAll(owned);
        owned.removeAll(givenUp);
        uncommitted.keySet().removeAll(partitions);
        if (!givenUp.isEmpty()) {
            write(hasOverslept ? "lost" : how, Interop.JSON.valueToTree(givenUp));
        }
    }

    /** A pattern may stand for further topics, of which the history says nothing. */
    private TreeSet<Integer> numbers(Collection<TopicPartition> partitions) {
        TreeSet<Integer> numbers = new TreeSet<>();
        partitions.stream().filter(each -> each.topic().equals(topic)).forEach(each -> numbers.add(each.partition()));
        return numbers;
    }

    // -- work

    private void process(ConsumerRecords<byte[], byte[]> records) {
        ArrayNode ranges = Interop.JSON.createArrayNode();
        for (TopicPartition partition : records.partitions()) {
            long first = -1;
            long last = -1;
            for (ConsumerRecord<byte[], byte[]> record : records.records(partition)) {
                if (first >= 0 && record.offset() != last + 1) {
                    ranges.addArray().add(partition.partition()).add(first).add(last);
                    first = -1;
                }
                first = first < 0 ? record.offset() : first;
                last = record.offset();
            }
            ranges.addArray().add(partition.partition()).add(first).add(last);
            uncommitted.put(partition, new OffsetAndMetadata(last + 1));
        }
        if (!ranges.isEmpty()) {
            write("processed", ranges);
        }
    }

    private void commit() {
        if (uncommitted.isEmpty()) {
            return;
        }
        try {
            consumer.commitSync(uncommitted);
        } catch (KafkaException error) {
            write("refused", Interop.JSON.valueToTree(error.getClass().getSimpleName()));
            return;
        }
        Map<Integer, Long> offsets = new TreeMap<>();
        uncommitted.forEach((partition, offset) -> offsets.put(partition.partition(), offset.offset()));
        ArrayNode committed = Interop.JSON.createArrayNode();
        offsets.forEach((partition, offset) -> committed.addArray().add(partition).add(offset));
        write("committed", committed);
        uncommitted.clear();
    }

    private void write(String event, JsonNode fields) {
        // The group metadata keeps the last generation when the member has been put out of its group.
        ArrayNode line = Interop.JSON.createArrayNode().add(event);
        line.add(System.nanoTime()).add(consumer.groupMetadata().generationId()).add(fields);
        events.println(line);
    }
}
