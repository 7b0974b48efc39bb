"""The value tables that the IEEE P3109 working group publishes with report 4.0.

The digests below were computed from the published tables by tools/p3109_digests.py, not from our
own output: K = 3 to 8, 120 tables.  The tables for K = 9 to 16 are published too but have no digest
here yet, so for those widths there is only the rule, by hand.  The tables themselves are read
where they lie beside the repository.
"""

from __future__ import annotations

import hashlib
import importlib.util
import itertools
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import feather_ref as fr
from feather_ref import oracle

REPOSITORY = Path(__file__).resolve().parents[2]
FOLDER = REPOSITORY.parent / "shared" / "p3109"

# SHA-256 of the values in code order, little-endian float64, NaN as 7FF8000000000000
# fmt: off
DIGESTS = {
    "binary3p1se": "c2e54246ca4263ffa79708981b44b584579461b6c73a5d542663c86daa2d204f",
    "binary3p1sf": "19cdbc5337dbf53e6f604a53ca3a96d1c76f6b2e2497c1eeaa6756dc06c3a67d",
    "binary3p1ue": "250ea3fff8666951bf0f09762b621a89e7f3cd4a6a5305fe97b595b568e6178d",
    "binary3p1uf": "b6e0fd9f8f0e6921b449d45f62429e90dcb4d0cc97acdcb5fa7fa9d46dc74c90",
    "binary3p2se": "c2e54246ca4263ffa79708981b44b584579461b6c73a5d542663c86daa2d204f",
    "binary3p2sf": "1e6b38dbf273f343417c31e9704c44ede53ecbbe3c836c7463f8abe0b4d035fa",
    "binary3p2ue": "9aa029645dbd72386e156d6b527d20a36771d284c8f3b004d6b9b92205c4ee13",
    "binary3p2uf": "694263f6d8d11d8dd23ee4a49e74ece8b33746c576e06e4c2ff387d2b7a31da2",
    "binary3p3ue": "c9601338904a9bc1532a846469e4d7144284cd074dc6fc7d57bbd4ff1ce95400",
    "binary3p3uf": "975e5d42fad792b87d3e11d3d38a80d3bb1b3db4e965fbd84b49d80c26e3e946",
    "binary4p1se": "44e2c64a42b847a1a645cf0c0d5713db16f8834b777ad3675cb2846d6e8e66a6",
    "binary4p1sf": "7a9f1da312663ea0b9a1386d39db224fb3ab471e3bfd70168a4bf25da8d15827",
    "binary4p1ue": "4328835caf1d94e5ed692438ed8ee825354b1f79efd6d79baaefbf554e324ae8",
    "binary4p1uf": "d45eafa4142377b13df6cc2ef211570d630748603e0bc06c1855e334febf171f",
    "binary4p2se": "c9586e2565cbc38e51d0dc459c63bae87ee7c7e97bf6cd9d5ae8b4f94f157048",
    "binary4p2sf": "ed8778f5f0c6f2442deb616751507225c2a0b0326decdb5f2cf60d704e16f841",
    "binary4p2ue": "eb41a867cdda01e25f11a13b05623a81dac66b92439444d399717bc36c14c41a",
    "binary4p2uf": "767f5cf1d121aeaa2eea17a26309482cc39001cf49eb2364eae1d7c9e6e6d95e",
    "binary4p3se": "24dea5fa65c08cc32aecb95a7ca777327dfe3c32281a41415e96333f52df69e4",
    "binary4p3sf": "e4743ec5f5cdedf7f7a8319974b71ef25419bec5abe5d2c84043a1cf4df233fb",
    "binary4p3ue": "3236d2e03cd220f4b7643efb0efebec881ea16b0bf0795c4ce92ac90613227c5",
    "binary4p3uf": "d1044994423ed4f10cf2964dcd3d33bf2e2295b69daffb107cac1a316b4975fc",
    "binary4p4ue": "87d653447dd807807b727f2f493f3491487da6a1a52950ff2ee43ade0215b09f",
    "binary4p4uf": "3cf1db4c8014e10ee9df13fd210d33761c21623e1e19f4aa5cd21fb5740c785e",
    "binary5p1se": "7f1b94513e141a824fcba00e16203015c9ea2373fcc2ae4147420a98c93e2161",
    "binary5p1sf": "d414105684744548c8a794fc9741f2d04b25685a8524ee9d31030e6866672036",
    "binary5p1ue": "1fe8c866c3b56cf77ce9101bcf48c1549c2d8c7be781aad704afb8bcf824a1ca",
    "binary5p1uf": "ad6cad00ef75a81c0801e7f6fed787e0cc6edc3972da831234a6d85aaf7740b2",
    "binary5p2se": "a22d61bfe45a94feddd21502328ce13eb3c57121a006668aa1228ed3056364eb",
    "binary5p2sf": "68a9f48e10e2c035c3f1ac74b824c18acf8d017066fcd1f86b5f904eb04fcb64",
    "binary5p2ue": "f941ee7166213c8ca3db578b7a649a541ed4e95e5966116fcf3230b8ebba67ee",
    "binary5p2uf": "6ea0ad477ce2d60e82f4bb161fe15f595328e8d1ea2abe7db9305d3911be0130",
    "binary5p3se": "56559f9cd6f07366604c7ec7ae573d5a1d894316fb12f08b0e1ecc9b99a97890",
    "binary5p3sf": "861d77dba79abad30933b30a55004820e3772b1ed112f5eaa45a1cf45d364efb",
    "binary5p3ue": "f3f1e21f0ad0272cf2921b43a02a9201b57e894c5793bbd7fd1543f8c5cdfe51",
    "binary5p3uf": "7e35b3402453beebc2feadc3423b51c1b8d176660463e659639e6fa9e496b023",
    "binary5p4se": "e3f9f7d2f5a605404295865ede9f84328a4d9cf0da94d5fc94c91b319184e6a0",
    "binary5p4sf": "b435f88caa3f0ad150beb0c14177b53068bb92b2bb34936ec8a515cdfcd7e681",
    "binary5p4ue": "0b3d234b2811f78a0651d1b94bee6cbc75f9f3689742f2787b6e375baa544d3f",
    "binary5p4uf": "ef431ec0670fbcec4b6be10260313029b99d84a0e48b83908a821deb08ee3609",
    "binary5p5ue": "8d1d7188d6fce356e05bf05a3c0f0f7657790643d5e1f8b983fb80abdde72b77",
    "binary5p5uf": "557eebe9c052cb5f428a8a113f3a4a602428604694eeba821af71f03025b8549",
    "binary6p1se": "9846fd79d576405106d9d2480c4f8076a1c2cd7edd9348cfcabbb0851f18051d",
    "binary6p1sf": "bc4e0f17cc9d86408ddeff0afe2f139de90a307d7b5ddd28015b8fde9fc35bea",
    "binary6p1ue": "0c67b26c865e01dd5e3efa6fc862c3bfc6699200b4deb8e7574064662f3c23dd",
    "binary6p1uf": "6d5eb4fc80a96f5e6e40c8c33431f64853e3541bd7694eeb41971b89c2c30f4b",
    "binary6p2se": "6f7e00a49ed7ceb86904e509ca0bd9bd7a7f845c561c4a75f05c311b2a8c7807",
    "binary6p2sf": "7f9f0e9ff0aefd8789cfcae3f97da972725f45b9b5bc8e96026d298820287482",
    "binary6p2ue": "8874d43c54bca488bed626c20bfe70819f5534cbd0f9db3b0402be1b61edb920",
    "binary6p2uf": "37aac316e3dd84bbd024b74acbfd084f223a7b1014ae37091fea1693352c1b2e",
    "binary6p3se": "d3d5530bea3b78740bee6a564c5b1e5582e84740c268904ab154bc77f75b4c50",
    "binary6p3sf": "7cd281db520aeef1cc5677d8c6a70c4da8591694e485d516b3174416bacca100",
    "binary6p3ue": "b9bf134c918b0d1b34281b042b8e2cfe6768527e28701edaad0771f9e6d9f358",
    "binary6p3uf": "b055efb041512f2fdce63e5ec4c1e338136676f85e5b490b366f186edd1d19ab",
    "binary6p4se": "49ae73c6742c7b08aa9c07941bd61746f9d6031b2b82db3aab60089eb9f985d0",
    "binary6p4sf": "ec22732f324bfa474c0fe0498b3322d8aa06ad9a59ae7ee46387a91034e639a0",
    "binary6p4ue": "7eb95e1861c0a5369b1cd115c40bf194f42b2758af423b130b1bf9dacc84cc48",
    "binary6p4uf": "27bea886863462064b234afd7566ffccbe799552e30d701251b1216e55367aba",
    "binary6p5se": "0afaba0cc43dd719c25b951f5468179423c60a306b11375dbf8f827ef6ccc96f",
    "binary6p5sf": "c5749056eb927dbda7edfa283c706d79b4652e2ff1d11f2087bfb550d03dae15",
    "binary6p5ue": "891a44777064c9926ef0abcf200cc6202c6be8670314509d756a9a36a7d1a06a",
    "binary6p5uf": "94f104f563bce05e297f554377cc208ffcfac2f3f17b14b30220cd47b2bf793f",
    "binary6p6ue": "e3ed9f22291856b6a8c5699408fffc6c0f247c002bfb5e9e4786240322463ceb",
    "binary6p6uf": "09313a7365d37b205597fa4664f5fb5515596867e9e2db7a5d08864d63c7d884",
    "binary7p1se": "256f83c4e4254251ccc5806c965da393bec8d359ad42757557f0d517ed6a5bcf",
    "binary7p1sf": "aa0c12c7f650dfcea02a6b402c6a7c7b57d53b2cd2b64ccd7ed335ed44783de6",
    "binary7p1ue": "04029a7b41aee4747c98aecf4a55892f233af704d733b8d5ef770d0f7d138fee",
    "binary7p1uf": "ab671bce42cf5f1e3247364717e72b461b889f8baef5e70eb3d21061472e6c93",
    "binary7p2se": "8b748c248849d6edc0f596974341b77b0b66d4e764be1c9266c0d544d0cb5954",
    "binary7p2sf": "e38280263d20aa4856961a5ee69fbe2c82bccb22ba8dc8ca1cd2c674a71f121b",
    "binary7p2ue": "707faa2dbe2bec10a504a7be3b260bb806ac549c6dc6ccf551dc1de668ad8ab7",
    "binary7p2uf": "50040a25e93e44288be495737de477725665704786e240afb3f3b522b6cde1da",
    "binary7p3se": "a7fead03c770b456403370c1cea164f37c6e8f9b5c5cabb1a394964cb1b26a75",
    "binary7p3sf": "4e98466997aa8ffaa1a4ebad9dbe80d2420449a5adb9ceaae6b76339b3288991",
    "binary7p3ue": "443943a61b3fbc9c27985cf38cb5765dfe50c966eb590a8c7569e4f0bf29effa",
    "binary7p3uf": "4e966f9e2dab561144899992b3e81d9f06421c7436a9efaee24b7b19372e664f",
    "binary7p4se": "19a8d50019b6225dcf4d268e093aacb87f1de85007fc6bf59e0818cd6b897660",
    "binary7p4sf": "161a35047caf06d8d91c3611582b947d9b44b806e7984df5fa7e7c369db64fb7",
    "binary7p4ue": "8ee3ff93b2816965607efd635565d589b0a5d0f977019b336215f33d8ed29dca",
    "binary7p4uf": "fb2d3195c8a10c43abea326f263e40a2f21125e7c8f4734d70527d0171ead528",
    "binary7p5se": "766bc3420e8d36cb978060d0d8a6fcd4035e183d8007e3031d398315f6ce71c9",
    "binary7p5sf": "593a68215e44fac1007c4d5a6dff60fc5496cff6d87ce0f207ff311af909a355",
    "binary7p5ue": "142aa45501c51df6cd7855d6c410f9997fe6aed559d80de9c200eccfbbb194dc",
    "binary7p5uf": "dde2422849c33c18da6774e1a73e4bef5170769b3b4bf278c74fee9adbcff7bf",
    "binary7p6se": "35b3b381d313809f769fc7cd313bcffaea943db33e89ba85b92fbcf56388a2fe",
    "binary7p6sf": "91ebd83b8a2c509e3f37cf43ce3d8434394ec9e720ceeef0ca4d3df078f11db4",
    "binary7p6ue": "5e143e66739f773da82bfbcf846bbf6c4f71db5e6413f8fc39a13997e269e06c",
    "binary7p6uf": "7a538e3120566eab14ce1be9839f1bc466c72f0fa6402b761f2b58c2c0b8c8be",
    "binary7p7ue": "6ef5c071ea405477353734fa0e0b0eef2353bdbdf5e48fc1695ce1bc4db7d60f",
    "binary7p7uf": "3414838b37f745c9c33026e4dee6ca2e24f8246031f2f6e72db853781121f0c9",
    "binary8p1se": "8db627a5784ea4d39608a8ddfc046defb04dce5d58abb9f8ba7ec26886932eed",
    "binary8p1sf": "c8935b252660b75ec67fec50380b4850475fb4d5cce8db3cbeba74cbe6a49275",
    "binary8p1ue": "6a9cfaffb5cf16cafa02a75069404af4a0eadf29949bb37cea1bb5ea310e0228",
    "binary8p1uf": "9f273b60076f0e288be81ad2968f7a725fa37b99f5b5ea1f9d00ba7ba6e91b5f",
    "binary8p2se": "34291aac6e1150d625de02d2d33cac05a09d412297ea9853e918d6a85de55bdc",
    "binary8p2sf": "8298e6d99977d74c742a4bb4bbb9dd227f17f9bc336e4d19f223189190ddd578",
    "binary8p2ue": "d0bdb08d6bd99a1a0a9330a0c013e73a58b9147b4336b93453501f69d93dfd8d",
    "binary8p2uf": "01dce0b4699753e4bef4bf2eefda0ad0a5c207c12547b658f76f7a79a090a6c2",
    "binary8p3se": "9b9e527d92e30f9810e63bd596dbba5231c40f48541e452aa9f2d546bc29f5fe",
    "binary8p3sf": "0480d2f04b2d4dad466fe8d5cbdd1b52cb2d952f449d7db61b4baf47d9eb8e34",
    "binary8p3ue": "a2ae0c8b3e8c289725dbd37a51a013cb55b78f02f7a8abaf8b19cf735c0f7bd3",
    "binary8p3uf": "92410134f4dc6daf0508776875d20da00d021802e543a5927016ff22da928391",
    "binary8p4se": "d8167be706783d2132a72d719ad713426f4c4017617d37dcfeaf5269cc8bed6e",
    "binary8p4sf": "10ad41a5ddbd0da6168954bade20482aeedd69e0295ddef42da4703067b24be6",
    "binary8p4ue": "5a4d9e36cbe8d77a3382682854a97a3024b9c6d00052eb09c0e61c4b3a5d7539",
    "binary8p4uf": "1df04fcca08f018a7e24085c56172ab4ae4bdc77fdb21ec524d1321cbcecbc8c",
    "binary8p5se": "762045239711aea4d64497c98f2af96fde6c1bf061ce02e5755f9e3c42f8c6e4",
    "binary8p5sf": "a63c824d6c31476ef9c753c0e44f42566aafd6a0e96edf86953ce4156029886b",
    "binary8p5ue": "b323512e57434caea1fa34b31ae5cd0ab973b4506e0af637eba459dafb072ab2",
    "binary8p5uf": "e34ca1a2bfe7a023acf44813b66caf6cc7b19a6a4da228ab6c9655fc619d192c",
    "binary8p6se": "c0c897287f29b96cd6ea67154a33f20aad69e013c85efd7020d5e407dab07caf",
    "binary8p6sf": "7c5c5770cf877a33062ea252a925ed049f4fdc3480a944893667efbd7765c580",
    "binary8p6ue": "14ab97a86679ef0ef2963daf711d253d74842f4848f906bedd9eb0b7e09eafe0",
    "binary8p6uf": "5b1ed6f5b9d9d8515b9abcfc0c5e2145b828e4c4360cc90e477a84ed8051187f",
    "binary8p7se": "65ef4bb0561bc67f9408b5ea48b9243ab30fceaca57ff3cc71e386861aec5f86",
    "binary8p7sf": "0a4768dcef0719c1820baf907917ab8726179573a8f39d6657c1f7854d4d12cb",
    "binary8p7ue": "a8acb778e5a51a85eb6e019b25224a992f9e727c7286cec2861b21f0b1879377",
    "binary8p7uf": "f01bdadfee9e257e9573db345bf7b57b6497a36f7f9060b133983598095e63fe",
    "binary8p8ue": "0d0d01e5673473796d0ca2a7dff8ace0cb9f7dc3abc373c048435bca3ed51996",
    "binary8p8uf": "509aa0da0c4068761af354702f86e88222cb7fed6665682fc6bff65bf5564484",
}
# fmt: on


def digest(x: np.ndarray) -> str:
    return hashlib.sha256(x.astype("<f8").tobytes()).hexdigest()


def oracle_values(name: str) -> np.ndarray:
    """The oracle's values, as float64; all are exact in it."""
    values = []
    for code in range(1 << fr.get_format(name).bits):
        x = oracle.decode(code, name)
        value = {"finite": float(x.magnitude), "inf": float("inf"), "nan": float("nan")}[x.kind]
        values.append(-value if x.negative else value)
    return np.array(values)


def test_every_format_has_a_digest() -> None:
    assert set(DIGESTS) == {row.name for row in fr.p3109_formats(range(3, 9))}
    # K = 3 has 5 precisions, signed and unsigned together, K = 8 has 15; each extended and finite
    assert len(DIGESTS) == 2 * (5 + 7 + 9 + 11 + 13 + 15) == 120


@pytest.mark.parametrize("name", DIGESTS)
def test_decode_is_the_published_table(name: str) -> None:
    codes = np.arange(1 << fr.get_format(name).bits)
    assert digest(fr.decode(codes, name, np.float64)) == DIGESTS[name]
    assert digest(oracle_values(name)) == DIGESTS[name]


def test_digests_tell_tables_apart() -> None:
    """One bit in one value changes the digest; two formats share one: 0, 1/2, 1, Inf, NaN, ..."""
    values = fr.decode(np.arange(256), "binary8p3se", np.float64)
    values.view(np.uint64)[0x40] ^= 1
    assert digest(values) != DIGESTS["binary8p3se"]
    assert DIGESTS["binary3p1se"] == DIGESTS["binary3p2se"]
    assert len(set(DIGESTS.values())) == len(DIGESTS) - 1


@pytest.mark.skipif(
    not FOLDER.is_dir(), reason=f"the published tables are not in ../{FOLDER.relative_to(REPOSITORY.parent)}"
)
def test_published_tables_value_by_value() -> None:
    spec = importlib.util.spec_from_file_location("p3109_digests", REPOSITORY / "tools" / "p3109_digests.py")
    assert spec and spec.loader
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    published = {name: tool.read_values(path) for name, path in tool.tables(FOLDER)}
    assert {name: tool.digest(values) for name, values in published.items()} == DIGESTS
    for name, values in published.items():
        table, codes = np.array(values), np.arange(len(values))
        for ours in (fr.decode(codes, name, np.float64), oracle_values(name)):
            wrong = codes[(ours.view(np.uint64) != table.view(np.uint64)) & ~(np.isnan(ours) & np.isnan(table))]
            assert wrong.size == 0, (name, hex(wrong[0]), ours[wrong[0]], table[wrong[0]])


@pytest.mark.parametrize("k", range(9, 17))
def test_wide_formats_follow_the_rule(k: int) -> None:
    """No published table here: the marks of the scale, by hand from K and P as report 4.0 has them.

    1 lies at the middle of the positive codes; the least value follows from the bias; NaN takes the
    code of -0, or the last; Inf is the greatest magnitude that is left.
    """
    for signed, extended in itertools.product((True, False), repeat=2):
        for p in range(1, k + (not signed)):
            name = f"binary{k}p{p}{'s' if signed else 'u'}{'e' if extended else 'f'}"
            half = 1 << (k - 1)
            one, nan, top = (half >> 1, half, half - 1) if signed else (half, 2 * half - 1, 2 * half - 2)
            least = Fraction(2) ** (2 - p - (one >> (p - 1)))  # 2**(1 - bias - (P - 1))
            kinds = ["finite", "finite", "nan", "inf" if extended else "finite"]
            assert [oracle.decode(code, name).kind for code in (1, one, nan, top)] == kinds, name
            assert [oracle.decode(code, name).magnitude for code in (1, one)] == [least, 1], name
            assert fr.isnan([1, one, nan, top], name).tolist() == [False, False, True, False], name
            assert fr.isinf([1, one, nan, top], name).tolist() == [False, False, False, extended], name
            assert fr.encode(1.0, name) == one, name
            if least >= Fraction(2) ** -1074:
                assert Fraction(float(fr.decode(1, name, np.float64))) == least, name
