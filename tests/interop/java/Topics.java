import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.CreateTopicsOptions;
import org.apache.kafka.clients.admin.DeletedRecords;
import org.apache.kafka.clients.admin.DescribeConfigsOptions;
import org.apache.kafka.clients.admin.ListOffsetsResult.ListOffsetsResultInfo;
import org.apache.kafka.clients.admin.LogDirDescription;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.config.ConfigResource;

/** What an administrator does: topics, settings of topics and groups, and where logs begin and end. */
final class Topics {
    private Topics() {}

    static void create(JsonNode command, ObjectNode answer) throws Exception {
        short replication = command.get("replication").shortValue();
        NewTopic topic = new NewTopic(topic(command), command.get("partitions").asInt(), replication);
        topic.configs(Interop.strings(command.get("configs")));
        CreateTopicsOptions options = new CreateTopicsOptions().validateOnly(command.get("validateOnly").asBoolean());
        try (Admin admin = admin(command)) {
            admin.createTopics(List.of(topic), options).all().get();
        }
    }

    static void delete(JsonNode command, ObjectNode answer) throws Exception {
        try (Admin admin = admin(command)) {
            admin.deleteTopics(List.of(topic(command))).all().get();
        }
    }

    static void list(JsonNode command, ObjectNode answer) throws Exception {
        ArrayNode topics = answer.putArray("topics");
        try (Admin admin = admin(command)) {
            admin.listTopics().names().get().forEach(topics::add);
        }
    }

    static void describe(JsonNode command, ObjectNode answer) throws Exception {
        try (Admin admin = admin(command)) {
            TopicDescription topic = described(admin, command);
            answer.put("id", topic.topicId().toString());
            ArrayNode partitions = answer.putArray("partitions");
            for (TopicPartitionInfo partition : topic.partitions()) {
                ObjectNode described = partitions.addObject().put("leader", partition.leader().id());
                nodes(partition.replicas(), described.putArray("replicas"));
                nodes(partition.isr(), described.putArray("isr"));
            }
        }
    }

    private static TopicDescription described(Admin admin, JsonNode command) throws Exception {
        return admin.describeTopics(List.of(topic(command))).allTopicNames().get().get(topic(command));
    }

    private static void nodes(List<Node> nodes, ArrayNode ids) {
        nodes.forEach(node -> ids.add(node.id()));
    }

    static void addPartitions(JsonNode command, ObjectNode answer) throws Exception {
        NewPartitions partitions = NewPartitions.increaseTo(command.get("partitions").asInt());
        try (Admin admin = admin(command)) {
            admin.createPartitions(Map.of(topic(command), partitions)).all().get();
        }
    }

    static void alterConfigs(JsonNode command, ObjectNode answer) throws Exception {
        List<AlterConfigOp> changes = new ArrayList<>();
        Interop.strings(command.get("set")).forEach((name, value) ->
            changes.add(new AlterConfigOp(new ConfigEntry(name, value), AlterConfigOp.OpType.SET)));
        command.get("delete").forEach(name ->
            changes.add(new AlterConfigOp(new ConfigEntry(name.asText(), null), AlterConfigOp.OpType.DELETE)));
        try (Admin admin = admin(command)) {
            admin.incrementalAlterConfigs(Map.of(resource(command), changes)).all().get();
        }
    }

    static void describeConfigs(JsonNode command, ObjectNode answer) throws Exception {
        DescribeConfigsOptions options = new DescribeConfigsOptions().includeDocumentation(true).includeSynonyms(true);
        ObjectNode configs = answer.putObject("configs");
        try (Admin admin = admin(command)) {
            ConfigResource resource = resource(command);
            Config config = admin.describeConfigs(List.of(resource), options).all().get().get(resource);
            for (ConfigEntry entry : config.entries()) {
                configs.putObject(entry.name())
                    .put("value", entry.value())
                    .put("source", entry.source().name())
                    .put("documented", entry.documentation() != null && !entry.documentation().isBlank());
            }
        }
    }

    static void deleteRecords(JsonNode command, ObjectNode answer) throws Exception {
        TopicPartition partition = Records.partition(command);
        RecordsToDelete records = RecordsToDelete.beforeOffset(command.get("before").asLong());
        try (Admin admin = admin(command)) {
            DeletedRecords deleted =
                admin.deleteRecords(Map.of(partition, records)).lowWatermarks().get(partition).get();
            answer.put("start", deleted.lowWatermark());
        }
    }

    static void logSizes(JsonNode command, ObjectNode answer) throws Exception {
        ArrayNode sizes = answer.putArray("sizes");
        try (Admin admin = admin(command)) {
            List<Integer> brokers = new ArrayList<>();
            admin.describeCluster().nodes().get().forEach(node -> brokers.add(node.id()));
            long[] found = new long[described(admin, command).partitions().size()];
            for (Map<String, LogDirDescription> directories :
                    admin.describeLogDirs(brokers).allDescriptions().get().values()) {
                for (LogDirDescription directory : directories.values()) {
                    directory.replicaInfos().forEach((partition, replica) -> {
                        if (partition.topic().equals(topic(command))) {
                            found[partition.partition()] += replica.size();
                        }
                    });
                }
            }
            for (long size : found) {
                sizes.add(size);
            }
        }
    }

    static void offset(JsonNode command, ObjectNode answer) throws Exception {
        TopicPartition partition = Records.partition(command);
        try (Admin admin = admin(command)) {
            ListOffsetsResultInfo found =
                admin.listOffsets(Map.of(partition, spec(command.get("at")))).partitionResult(partition).get();
            answer.put("offset", found.offset()).put("timestamp", found.timestamp());
        }
    }

    private static OffsetSpec spec(JsonNode at) {
        return switch (at.asText()) {
            case "earliest" -> OffsetSpec.earliest();
            case "latest" -> OffsetSpec.latest();
            case "maxTimestamp" -> OffsetSpec.maxTimestamp();
            default -> OffsetSpec.forTimestamp(at.asLong());
        };
    }

    private static String topic(JsonNode command) {
        return command.get("topic").asText();
    }

    private static ConfigResource resource(JsonNode command) {
        return command.has("group")
            ? new ConfigResource(ConfigResource.Type.GROUP, command.get("group").asText())
            : new ConfigResource(ConfigResource.Type.TOPIC, topic(command));
    }

    static Admin admin(JsonNode command) {
        return Admin.create(Map.of(
            AdminClientConfig.BOOTSTRAP_SERVERS_CONFIG, command.get("bootstrap").asText(),
            AdminClientConfig.DEFAULT_API_TIMEOUT_MS_CONFIG, Interop.TIMEOUT_MS));
    }
}
