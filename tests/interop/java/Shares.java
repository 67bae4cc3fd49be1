import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListShareGroupOffsetsSpec;
import org.apache.kafka.clients.admin.ShareGroupDescription;
import org.apache.kafka.clients.admin.ShareMemberDescription;
import org.apache.kafka.clients.admin.SharePartitionOffsetInfo;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** Share consumers, which stay open under a name between two commands, and the administration of their groups. */
final class Shares {
    private static final Duration POLL = Duration.ofMillis(200);
    private static final Duration TIMEOUT = Duration.ofMillis(Interop.TIMEOUT_MS);

    private final Map<String, KafkaShareConsumer<byte[], byte[]>> consumers = new HashMap<>();
    // Of the poll before, by offset.
    private final Map<Long, ConsumerRecord<byte[], byte[]>> polled = new HashMap<>();

    void open(JsonNode command, ObjectNode answer) {
        Map<String, Object> settings = new HashMap<>();
        settings.put(ConsumerConfig.BOOTSTRAP_SERVERS_CONFIG, command.get("bootstrap").asText());
        settings.put(ConsumerConfig.GROUP_ID_CONFIG, command.get("group").asText());
        settings.put(ConsumerConfig.CLIENT_ID_CONFIG, command.get("name").asText());
        settings.putAll(Interop.strings(command.get("options")));
        KafkaShareConsumer<byte[], byte[]> consumer =
            new KafkaShareConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        consumer.subscribe(List.of(command.get("topic").asText()));
        consumers.put(command.get("name").asText(), consumer);
    }

    /**
     * Polls until there are as many records as wanted, or the time is over. Says of each record what the command says,
     * if it says anything, and commits that after each poll.
     */
    void poll(JsonNode command, ObjectNode answer) {
        KafkaShareConsumer<byte[], byte[]> consumer = consumers.get(command.get("name").asText());
        AcknowledgeType say = command.get("say").isNull() ? null : AcknowledgeType.valueOf(command.get("say").asText());
        int wanted = command.get("wanted").asInt();
        long endNs = System.nanoTime() + Duration.ofMillis(command.get("timeoutMs").asLong()).toNanos();
        polled.clear();
        ArrayNode records = answer.putArray("records");
        ArrayNode errors = answer.putArray("errors");
        while (records.size() < wanted && System.nanoTime() < endNs) {
            for (ConsumerRecord<byte[], byte[]> record : consumer.poll(POLL)) {
                records.addObject()
                    .put("partition", record.partition())
                    .put("offset", record.offset())
                    .put("value", new String(record.value(), StandardCharsets.UTF_8))
                    .put("deliveries", record.deliveryCount().orElseThrow());
                polled.put(record.offset(), record);
                if (say != null) {
                    consumer.acknowledge(record, say);
                }
            }
            if (command.get("commits").asBoolean()) {
                refusals(consumer.commitSync(TIMEOUT), errors);
            }
        }
    }

    /** Says something of a record that was polled before, and commits it. */
    void acknowledge(JsonNode command, ObjectNode answer) {
        KafkaShareConsumer<byte[], byte[]> consumer = consumers.get(command.get("name").asText());
        for (JsonNode offset : command.get("offsets")) {
            consumer.acknowledge(polled.get(offset.asLong()), AcknowledgeType.valueOf(command.get("say").asText()));
        }
        refusals(consumer.commitSync(TIMEOUT), answer.putArray("errors"));
    }

    private static void refusals(Map<TopicIdPartition, Optional<KafkaException>> outcomes, ArrayNode errors) {
        for (Optional<KafkaException> outcome : outcomes.values()) {
            outcome.ifPresent(error -> errors.add(Errors.forException(error).name()));
        }
    }

    void close(JsonNode command, ObjectNode answer) {
        consumers.remove(command.get("name").asText()).close(TIMEOUT);
    }

    static void describe(JsonNode command, ObjectNode answer) throws Exception {
        String id = command.get("group").asText();
        try (Admin admin = Topics.admin(command)) {
            ShareGroupDescription group = admin.describeShareGroups(List.of(id)).all().get().get(id);
            answer.put("state", group.groupState().toString());
            ObjectNode members = answer.putObject("members");
            for (ShareMemberDescription member : group.members()) {
                ArrayNode partitions = members.putArray(member.clientId());
                member.assignment().topicPartitions().forEach(each -> partitions.add(each.partition()));
            }
        }
    }

    static void offsets(JsonNode command, ObjectNode answer) throws Exception {
        String id = command.get("group").asText();
        try (Admin admin = Topics.admin(command)) {
            Map<TopicPartition, SharePartitionOffsetInfo> found =
                admin.listShareGroupOffsets(Map.of(id, new ListShareGroupOffsetsSpec())).partitionsToOffsetInfo(id).get();
            Map<String, SharePartitionOffsetInfo> sorted = new TreeMap<>();
            found.forEach((partition, info) -> sorted.put(partition.toString(), info));
            ObjectNode offsets = answer.putObject("offsets");
            sorted.forEach((partition, info) -> offsets.putObject(partition)
                .put("start", info == null ? null : info.startOffset())
                .put("lag", info == null ? null : info.lag().orElse(null)));
        }
    }

    static void alterOffset(JsonNode command, ObjectNode answer) throws Exception {
        TopicPartition partition = new TopicPartition(command.get("topic").asText(), 0);
        try (Admin admin = Topics.admin(command)) {
            admin.alterShareGroupOffsets(
                command.get("group").asText(), Map.of(partition, command.get("offset").asLong())).all().get();
        }
    }

    static void deleteOffsets(JsonNode command, ObjectNode answer) throws Exception {
        try (Admin admin = Topics.admin(command)) {
            admin.deleteShareGroupOffsets(
                command.get("group").asText(), Set.of(command.get("topic").asText())).all().get();
        }
    }

    static void delete(JsonNode command, ObjectNode answer) throws Exception {
        try (Admin admin = Topics.admin(command)) {
            admin.deleteShareGroups(List.of(command.get("group").asText())).all().get();
        }
    }
}
