import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ClassicGroupDescription;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.GroupListing;
import org.apache.kafka.clients.admin.ListConfigResourcesOptions;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsSpec;
import org.apache.kafka.clients.admin.ListGroupsOptions;
import org.apache.kafka.clients.admin.MemberAssignment;
import org.apache.kafka.clients.admin.MemberDescription;
import org.apache.kafka.clients.admin.MemberToRemove;
import org.apache.kafka.clients.admin.RemoveMembersFromConsumerGroupOptions;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.GroupState;
import org.apache.kafka.common.GroupType;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;

/** What an administrator does with groups. Partitions are written as topic-number. */
final class Groups {
    private Groups() {}

    static void list(JsonNode command, ObjectNode answer) throws Exception {
        Set<GroupState> states = new HashSet<>();
        Set<GroupType> types = new HashSet<>();
        strings(command.get("states")).forEach(state -> states.add(GroupState.parse(state)));
        strings(command.get("types")).forEach(type -> types.add(GroupType.parse(type)));
        ListGroupsOptions options = new ListGroupsOptions().inGroupStates(states).withTypes(types);
        ArrayNode groups = answer.putArray("groups");
        try (Admin admin = Topics.admin(command)) {
            for (GroupListing group : admin.listGroups(options).all().get()) {
                groups.addObject()
                    .put("id", group.groupId())
                    .put("state", group.groupState().orElseThrow().toString())
                    .put("type", group.type().orElseThrow().toString())
                    .put("protocol", group.protocol());
            }
        }
    }

    static void describe(JsonNode command, ObjectNode answer) throws Exception {
        List<String> groups = strings(command.get("groups"));
        try (Admin admin = Topics.admin(command)) {
            for (ConsumerGroupDescription group : admin.describeConsumerGroups(groups).all().get().values()) {
                ObjectNode described = answer.putObject(group.groupId())
                    .put("type", group.type().toString())
                    .put("state", group.groupState().toString())
                    .put("assignor", group.partitionAssignor())
                    .put("coordinator", group.coordinator().id())
                    .put("epoch", group.groupEpoch().orElse(null))
                    .put("targetEpoch", group.targetAssignmentEpoch().orElse(null));
                members(group.members(), described.putArray("members"));
            }
        }
    }

    static void describeClassic(JsonNode command, ObjectNode answer) throws Exception {
        List<String> groups = strings(command.get("groups"));
        try (Admin admin = Topics.admin(command)) {
            for (ClassicGroupDescription group : admin.describeClassicGroups(groups).all().get().values()) {
                ObjectNode described = answer.putObject(group.groupId())
                    .put("state", group.state().toString())
                    .put("protocol", group.protocol())
                    .put("assignor", group.protocolData());
                members(group.members(), described.putArray("members"));
            }
        }
    }

    private static void members(Collection<MemberDescription> members, ArrayNode described) {
        for (MemberDescription member : members) {
            ObjectNode each = described.addObject()
                .put("id", member.consumerId())
                .put("client", member.clientId())
                .put("instance", member.groupInstanceId().orElse(null))
                .put("host", member.host())
                .put("epoch", member.memberEpoch().orElse(null))
                .put("upgraded", member.upgraded().orElse(null));
            partitions(member.assignment(), each.putArray("partitions"));
            member.targetAssignment().ifPresent(target -> partitions(target, each.putArray("target")));
        }
    }

    private static void partitions(MemberAssignment assignment, ArrayNode names) {
        TreeSet<String> sorted = new TreeSet<>();
        assignment.topicPartitions().forEach(partition -> sorted.add(partition.toString()));
        sorted.forEach(names::add);
    }

    // -- offsets

    static void offsets(JsonNode command, ObjectNode answer) throws Exception {
        Map<String, ListConsumerGroupOffsetsSpec> asked = new HashMap<>();
        strings(command.get("groups")).forEach(group -> asked.put(group, new ListConsumerGroupOffsetsSpec()));
        try (Admin admin = Topics.admin(command)) {
            admin.listConsumerGroupOffsets(asked).all().get().forEach((group, offsets) -> {
                ObjectNode found = answer.putObject(group);
                offsets.forEach((partition, offset) ->
                    found.putArray(partition.toString()).add(offset.offset()).add(offset.metadata()));
            });
        }
    }

    static void alterOffsets(JsonNode command, ObjectNode answer) throws Exception {
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        command.get("offsets").forEach(each -> offsets.put(
            Records.partition(each), new OffsetAndMetadata(each.get("offset").asLong(), each.get("metadata").asText())));
        try (Admin admin = Topics.admin(command)) {
            admin.alterConsumerGroupOffsets(group(command), offsets).all().get();
        }
    }

    static void deleteOffsets(JsonNode command, ObjectNode answer) throws Exception {
        Set<TopicPartition> partitions = Set.of(Records.partition(command));
        try (Admin admin = Topics.admin(command)) {
            admin.deleteConsumerGroupOffsets(group(command), partitions).all().get();
        }
    }

    // -- ends

    static void delete(JsonNode command, ObjectNode answer) throws Exception {
        try (Admin admin = Topics.admin(command)) {
            admin.deleteConsumerGroups(strings(command.get("groups"))).all().get();
        }
    }

    /** Static members by their names, or everyone where none is named. */
    static void removeMembers(JsonNode command, ObjectNode answer) throws Exception {
        List<MemberToRemove> members = new ArrayList<>();
        strings(command.get("instances")).forEach(instance -> members.add(new MemberToRemove(instance)));
        RemoveMembersFromConsumerGroupOptions options = members.isEmpty()
            ? new RemoveMembersFromConsumerGroupOptions()
            : new RemoveMembersFromConsumerGroupOptions(members);
        try (Admin admin = Topics.admin(command)) {
            admin.removeMembersFromConsumerGroup(group(command), options).all().get();
        }
    }

    // -- settings

    static void configResources(JsonNode command, ObjectNode answer) throws Exception {
        Set<ConfigResource.Type> types = Set.of(ConfigResource.Type.GROUP);
        ArrayNode names = answer.putArray("names");
        try (Admin admin = Topics.admin(command)) {
            admin.listConfigResources(types, new ListConfigResourcesOptions()).all().get()
                .forEach(resource -> names.add(resource.name()));
        }
    }

    private static String group(JsonNode command) {
        return command.get("group").asText();
    }

    private static List<String> strings(JsonNode array) {
        List<String> strings = new ArrayList<>();
        array.forEach(each -> strings.add(each.asText()));
        return strings;
    }
}
